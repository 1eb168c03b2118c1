// Declarations shared by the files for probes between hosts: native_fabric_open.c creates the queues of a port,
// native_fabric_pair.c the queues of a pair, native_fabric.c runs the pairs, and native_fabric_poll.c handles completions.
#ifndef RDMA_EVENTS_NATIVE_FABRIC_H
#define RDMA_EVENTS_NATIVE_FABRIC_H

#include <pthread.h>

#include "native_lib.h"

enum {
	FABRIC_DEPTH = 64,  // receives of each UD queue pair
	FABRIC_SLOT = 128,  // bytes of a receive buffer
	FABRIC_GRH = 40,    // bytes of the GRH at the start of a UD receive (ibv_post_recv(3))
	FABRIC_CQ = 1024,   // completion queue entries: three times the receives and one write of each pair
	FABRIC_SENDS = 64,  // work requests of a UD send queue
	FABRIC_ECHOES = 20, // echoes per second and pair
};

#define MS 1000000LL
#define SECOND_NS (1000 * MS)

// datagram_wire is a probe or an echo, in network byte order. An echo has the session, path and number (seq) of its probe.
// rx is the number of probes of the session and path that have arrived, tx the number of echoes posted for them, dry how
// often all receives of the path were used up since the session began, and delay the time from the probe's arrival to the
// post of the echo, in ns.
struct datagram_wire {
	uint32_t magic;
	uint8_t version, type, path, zero;
	uint64_t session;
	uint32_t seq, rx, tx, dry;
	uint64_t delay;
};
_Static_assert(sizeof(struct datagram_wire) == 40, "datagram");
enum { T_PROBE = 1, T_ECHO = 2 };

// pair is the connection with a port of another host. While it is in fabric.pair, the thread that runs the fabric owns it,
// under the lock.
struct pair {
	struct ibv_qp *rc;
	struct ibv_ah *ah[FABRIC_PATHS];
	struct fabric_peer peer;
	uint16_t generation; // distinguishes its completions from those of an earlier pair in its slot
	uint32_t posted[FABRIC_PATHS]; // value of fabric.sent after the pair's last datagram
	uint32_t seq;
	struct {
		uint32_t seq;
		int64_t at;
	} sent[256];
	int64_t next;	    // when the next round is due
	int64_t missing_at; // when the awaited echo counts as missing; 0: no echo is awaited
	uint32_t awaited;   // number of the probe whose echo is awaited
	int reported;	    // a missing echo was reported since the last echo
	int more_requested; // further probes were requested because of it
	int more;	    // number of further probes that are still to be sent
	int64_t next_more;  // when the next further probe is due
	int64_t write_at;   // when the outstanding write was posted; 0: no write is outstanding
	int write_failed;
	uint32_t arrived[256]; // number of the newest probe that has arrived, by number modulo 256
	uint32_t rx[FABRIC_PATHS], tx[FABRIC_PATHS];
	uint32_t peer_dry[FABRIC_PATHS]; // the peer's dry count at the last echo
	// own_dry is the value of fabric.dry at the last echo; for a responder, at the start of the session.
	uint32_t own_dry[FABRIC_PATHS];
	int64_t second; // start of the second in which echoes are counted
	int echoes;
	struct ledger_fabric_pair *led;
	struct pair *next_retired;
};

struct fabric {
	struct device *d;
	struct ledger_fabric *led;
	struct fabric_config c;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq *send_cq;	   // for the sends of datagrams, without a channel
	struct ibv_pd *pd, *rc_pd; // rc_pd has no memory region, so that a peer's write cannot reach memory
	struct ibv_mr *mr;
	void *buffer;
	struct ibv_qp *ud[FABRIC_PATHS];
	int receives[FABRIC_PATHS]; // number of posted receives
	int used_up[FABRIC_PATHS];  // the last poll found all receives of the path completed
	uint32_t dry[FABRIC_PATHS]; // how often that happened
	int nudge;		    // eventfd
	int64_t expected;	    // when the thread planned to check deadlines next; 0: not yet planned
	int64_t up_to;		    // time before the last poll that found no further completion
	struct ibv_wc wc[FABRIC_BATCH];

	pthread_mutex_t lock; // protects the following members
	struct fabric_end end;
	uint32_t sent[FABRIC_PATHS], done[FABRIC_PATHS]; // datagrams posted, and datagrams completed
	struct pair *pair[FABRIC_PAIRS];

	// Used only by the thread that carries out orders.
	struct pair *offered[FABRIC_PAIRS]; // not joined yet
	struct pair *retired;		    // ended pairs with datagrams that have not completed
	int retired_count;
	uint16_t generation;
};

#define FABRIC_CALL(f, id, expr) CALL(&(f)->led->thread, id, expr)
// FABRIC_ORDER is PORT_CALL for the thread that carries out orders. The kernel may block it while it resolves an address.
#define FABRIC_ORDER(f, id, expr) PORT_CALL(&(f)->led->control, id, (f)->c.port, expr)

// The kinds of work requests, in the upper byte of wr_id. The rest of wr_id is the path and buffer number of a receive, the
// path of a datagram, or the slot and generation of the pair of a write.
enum { WR_RECEIVE, WR_SEND, WR_WRITE };
static inline uint64_t work_id(int kind, int what, int which)
{
	return (uint64_t)kind << 56 | (uint64_t)what << 16 | (uint64_t)which;
}

// sink collects the items of a native_fabric_run.
struct sink {
	struct fabric_item *out;
	int n, cap;
	int urgent; // an item must not wait for the end of the call
};

// add_item adds an item for a pair, or for all pairs if p is NULL.
struct fabric_item *add_item(struct sink *s, int kind, int pair, const struct pair *p, int64_t at);

// fail_write records that a write and its queue pair have failed.
void fail_write(int i, struct pair *p, int64_t t, int status, struct sink *s);

// post_datagram_to posts a datagram to a pair, after filling in session and path, and returns an errno.
int post_datagram_to(struct fabric *f, struct pair *p, int path, struct datagram_wire *m);
// post_fabric_receive posts the receive of a buffer of a path, and returns an errno.
int post_fabric_receive(struct fabric *f, int path, int place);
// poll_sent polls the completions of sent datagrams. A failed send ends the fabric, since its queue pair then sends nothing
// any more.
void poll_sent(struct fabric *f);
// has_failed reports whether the queues cannot be used any more.
static inline int has_failed(const struct fabric *f)
{
	return f->end.failed.err || f->end.wc_status;
}
// drain_completions handles all completions, and sets up_to once it has found no more. It returns 0 then, 1 if there may be
// more, and -1 if the fabric has failed.
int drain_completions(struct fabric *f, struct sink *s);

struct result modify_fabric(struct fabric *f, struct ibv_qp *qp, struct ibv_qp_attr *a, int mask);
// make_rc creates the RC queue pair of a pair, in state INIT.
struct result make_rc(struct fabric *f, struct pair *p, int role);
struct result drop_rc(struct fabric *f, struct pair *p);
// drop_pairs destroys all pairs. It must be called after the UD queue pairs are destroyed, so that no datagram waits to be
// sent.
struct result drop_pairs(struct fabric *f);

#endif
