// Declarations that the two files of the fabric share: native_fabric.c, which runs, and native_fabric_pair.c, which makes
// and destroys what it runs with.
#ifndef RDMA_EVENTS_NATIVE_FABRIC_H
#define RDMA_EVENTS_NATIVE_FABRIC_H

#include <pthread.h>

#include "native_lib.h"

enum {
	FABRIC_DEPTH = 64,	  // receives of each UD queue pair
	FABRIC_SLOT = 128,	  // bytes of a receive
	FABRIC_GRH = 40,	  // that a UD receive begins with (ibv_post_recv(3))
	FABRIC_CQ = 1024,	  // completions
	FABRIC_SENDS = 64,	  // work requests of a UD send queue
	FABRIC_SIGNALED = 16,	  // of which one in so many makes a completion
	FABRIC_BATCH = 512,	  // completions that are polled before any is looked at
	FABRIC_ECHOES = 20,	  // a second and pair
};

// datagram is a probe or an echo, all in network byte order. An echo has the probe's session, path and number, how many
// probes of the session and path have arrived, how many echoes of it were posted, how often the path's receives were used
// up, and how long it took until this echo was posted, in ns.
struct datagram_wire {
	uint32_t magic;
	uint8_t version, type, path, zero;
	uint64_t session;
	uint32_t seq, rx, tx, dry;
	uint64_t delay;
};
_Static_assert(sizeof(struct datagram_wire) == 40, "datagram");

// pair is a port of another host. The thread that runs the fabric owns it while it is in fabric.pair, under the lock.
struct pair {
	struct ibv_qp *rc;
	struct ibv_ah *ah[FABRIC_PATHS];
	struct fabric_peer peer;
	uint16_t generation; // of its place, so that a completion of a former pair is not taken for its own
	uint32_t seq;
	struct { uint32_t seq; int64_t at; } sent[256];
	int64_t next; // when the next round is due
	int64_t look; // when the echo of the probe awaited is missing; 0: none is awaited
	uint32_t awaited;
	int more;	    // probes that silence has brought and are not sent yet
	int asked;	    // silence has brought some since the last echo
	int64_t next_more;  // when the next of them is due
	int64_t write_at;   // when the outstanding write was posted; 0: none is
	int write_failed;
	uint32_t rx[FABRIC_PATHS], tx[FABRIC_PATHS];
	uint32_t peer_dry[FABRIC_PATHS], own_dry[FABRIC_PATHS]; // as the last echo left them
	int64_t second; // that echoes are counted in
	int echoes;
	struct ledger_fabric_pair *led;
};

struct fabric {
	struct device *d;
	struct ledger_fabric *led;
	struct fabric_config c;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_pd *pd, *rc_pd; // rc_pd has no memory region, so that a peer's write finds no memory
	struct ibv_mr *mr;
	void *buffer;
	struct ibv_qp *ud[FABRIC_PATHS];
	int posted[FABRIC_PATHS];  // receives
	int used_up[FABRIC_PATHS]; // all of them were polled at once
	uint32_t dry[FABRIC_PATHS];
	uint32_t sends[FABRIC_PATHS];
	int nudge; // eventfd
	int64_t expected; // when the thread meant to look at deadlines next
	pthread_mutex_t lock; // pair, and what is in it
	struct pair *pair[FABRIC_PAIRS];
	struct pair *offered[FABRIC_PAIRS]; // not joined yet; of the thread of orders alone
	uint16_t generation;
	struct ibv_wc wc[FABRIC_BATCH];
};

#define FABRIC_CALL(f, id, expr) CALL(&(f)->led->lane, id, expr)
// FABRIC_ORDER is ASK: a call of the thread of orders, which the kernel may hold while it seeks an address.
#define FABRIC_ORDER(f, id, expr) ASK(&(f)->led->control, id, (f)->c.port, expr)

// The kinds of work requests, in the upper byte of wr_id. Of a receive the rest is path and place, of a write the pair's
// place and generation.
enum { WR_RECEIVE, WR_SEND, WR_WRITE };
static inline uint64_t work(int kind, int what, int which)
{
	return (uint64_t)kind << 56 | (uint64_t)what << 16 | (uint64_t)which;
}

// post_fabric_receive posts the receive of a place of a path again.
int post_fabric_receive(struct fabric *f, int path, int place);

#endif
