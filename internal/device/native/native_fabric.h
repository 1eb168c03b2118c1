// Declarations that the files of the fabric share: native_fabric_open.c has the queues of a port, native_fabric_pair.c those of
// a pair, native_fabric.c runs them, and native_fabric_take.c takes what completes.
#ifndef RDMA_EVENTS_NATIVE_FABRIC_H
#define RDMA_EVENTS_NATIVE_FABRIC_H

#include <pthread.h>

#include "native_lib.h"

enum {
	FABRIC_DEPTH = 64,  // receives of each UD queue pair
	FABRIC_SLOT = 128,  // bytes of a receive
	FABRIC_GRH = 40,    // that a UD receive begins with (ibv_post_recv(3))
	FABRIC_CQ = 1024,   // completions: three times those of the receives and of one write of each pair
	FABRIC_SENDS = 64,  // work requests of a UD send queue
	FABRIC_ECHOES = 20, // a second and pair
};

#define MS 1000000LL
#define SECOND_NS (1000 * MS)

// datagram is a probe or an echo, all in network byte order. An echo has the probe's session, path and number, how many
// probes of the session and path have arrived, how many echoes of it were posted, how often the path's receives were used
// up since the session began, and how long it took until this echo was posted, in ns.
struct datagram_wire {
	uint32_t magic;
	uint8_t version, type, path, zero;
	uint64_t session;
	uint32_t seq, rx, tx, dry;
	uint64_t delay;
};
_Static_assert(sizeof(struct datagram_wire) == 40, "datagram");
enum { T_PROBE = 1, T_ECHO = 2 };

// pair is a port of another host. The thread that runs the fabric owns it while it is in fabric.pair, under the lock.
struct pair {
	struct ibv_qp *rc;
	struct ibv_ah *ah[FABRIC_PATHS];
	struct fabric_peer peer;
	uint16_t generation; // so that a completion of a former pair in its place is not taken for its own
	uint32_t posted[FABRIC_PATHS]; // fabric.sent after its last datagram
	uint32_t seq;
	struct {
		uint32_t seq;
		int64_t at;
	} sent[256];
	int64_t next; // when the next round is due
	int64_t look; // when the echo of the probe awaited is missing; 0: none is awaited
	uint32_t awaited;
	int reported;	   // that an echo is missing, since the last one
	int asked;	   // more probes because of that
	int more;	   // of these are not sent yet
	int64_t next_more; // when the next of them is due
	int64_t write_at;  // when the outstanding write was posted; 0: none is
	int write_failed;
	uint32_t arrived[256]; // the newest probe that has arrived, by its number modulo 256
	uint32_t rx[FABRIC_PATHS], tx[FABRIC_PATHS];
	uint32_t peer_dry[FABRIC_PATHS]; // as the last echo left it
	uint32_t own_dry
		[FABRIC_PATHS]; // the same; of a pair that is answered, as it was when the session began
	int64_t second;		// that echoes are counted in
	int echoes;
	struct ledger_fabric_pair *led;
	struct pair *next_former;
};

struct fabric {
	struct device *d;
	struct ledger_fabric *led;
	struct fabric_config c;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq *send_cq;	   // of the datagrams, without a channel
	struct ibv_pd *pd, *rc_pd; // rc_pd has no memory region, so that a peer's write finds no memory
	struct ibv_mr *mr;
	void *buffer;
	struct ibv_qp *ud[FABRIC_PATHS];
	int receives[FABRIC_PATHS]; // that are posted
	int used_up[FABRIC_PATHS];  // all of them were polled at once
	uint32_t dry[FABRIC_PATHS];
	int nudge;	  // eventfd
	int64_t expected; // when the thread meant to look at deadlines next; 0: it has not yet
	int64_t up_to;	  // before the last poll that found nothing more
	struct ibv_wc wc[FABRIC_BATCH];

	pthread_mutex_t lock; // of what follows, and of what is in it
	struct fabric_end end;
	uint32_t sent[FABRIC_PATHS],
		done[FABRIC_PATHS]; // datagrams that were posted, and that have completed
	struct pair *pair[FABRIC_PAIRS];

	// Of the thread of orders alone.
	struct pair *offered[FABRIC_PAIRS]; // not joined yet
	struct pair *former;		    // whose datagrams are not all sent
	int formers;
	uint16_t generation;
};

#define FABRIC_CALL(f, id, expr) CALL(&(f)->led->lane, id, expr)
// FABRIC_ORDER is ASK: a call of the thread of orders, which the kernel may hold while it seeks an address.
#define FABRIC_ORDER(f, id, expr) ASK(&(f)->led->control, id, (f)->c.port, expr)

// The kinds of work requests, in the upper byte of wr_id. Of a receive the rest is path and place, of a datagram the path,
// of a write the pair's place and generation.
enum { WR_RECEIVE, WR_SEND, WR_WRITE };
static inline uint64_t work(int kind, int what, int which)
{
	return (uint64_t)kind << 56 | (uint64_t)what << 16 | (uint64_t)which;
}

// sink is where items go while native_fabric_run lasts.
struct sink {
	struct fabric_item *out;
	int n, cap;
	int amiss; // something that does not wait for the end of the call
};

// item adds an item of a pair, or of all of them if p is NULL.
struct fabric_item *item(struct sink *s, int kind, int pair, const struct pair *p, int64_t at);

// fail_write notes that a write and its queue pair are of no use any more.
void fail_write(int i, struct pair *p, int64_t t, int status, struct sink *s);

// post_datagram_to posts a datagram to a pair, whose session and path it fills in, and returns an errno.
int post_datagram_to(struct fabric *f, struct pair *p, int path, struct datagram_wire *m);
// post_fabric_receive posts the receive of a place of a path, and returns an errno.
int post_fabric_receive(struct fabric *f, int path, int place);
// take_sent takes the datagrams that have completed. One that was not sent ends the fabric: its queue pair then sends no
// other either.
void take_sent(struct fabric *f);
// ended reports whether the queues cannot be used any more.
static inline int ended(const struct fabric *f)
{
	return f->end.failed.err || f->end.wc_status;
}
// drain takes all that has completed, and sets up_to if it came to an end of it. It returns 1 if there is more, -1 if the
// fabric has ended, else 0.
int drain(struct fabric *f, struct sink *s);

struct result modify_fabric(struct fabric *f, struct ibv_qp *qp, struct ibv_qp_attr *a, int mask);
// make_rc makes the RC queue pair of a pair, in state INIT.
struct result make_rc(struct fabric *f, struct pair *p, int role);
struct result drop_rc(struct fabric *f, struct pair *p);
// drop_pairs destroys all pairs. The queue pairs of datagrams are no more, so nothing waits for being sent.
struct result drop_pairs(struct fabric *f);

#endif
