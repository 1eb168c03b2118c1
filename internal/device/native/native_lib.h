// Declarations shared by the C files of the native backend. Go uses native.h only.
#ifndef RDMA_EVENTS_NATIVE_LIB_H
#define RDMA_EVENTS_NATIVE_LIB_H

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "native.h"

// These symbols are resolved at run time, so that the worker can start without the library
// and report what is missing. Inline verbs (post, poll, arm) come from the header.
// clang-format off
#define SYMBOLS(X) \
	X(get_device_list) X(free_device_list) X(get_device_name) X(open_device) X(close_device) \
	X(query_device) X(get_async_event) X(ack_async_event) X(alloc_pd) X(dealloc_pd) \
	X(create_comp_channel) X(destroy_comp_channel) X(create_cq) X(destroy_cq) X(get_cq_event) \
	X(ack_cq_events) X(create_qp) X(modify_qp) X(destroy_qp) X(create_ah) X(destroy_ah) X(query_gid) \
	X(reg_mr) X(dereg_mr) X(query_qp)
// clang-format on
#undef ibv_reg_mr

struct verbs_library {
#define X(f) __typeof__(&ibv_##f) f;
	SYMBOLS(X)
#undef X
	int (*query_port)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *);
	__typeof__(&_ibv_query_gid_table) query_gid_table;		     // NULL before rdma-core 32
	int (*query_port_speed)(struct ibv_context *, uint32_t, uint64_t *); // NULL before rdma-core 62
};

extern struct verbs_library lib;

// The Call constants in internal/device/ledger have the same order.
// clang-format off
enum call {
	C_NONE, C_GET_DEVICE_LIST, C_OPEN_DEVICE, C_QUERY_DEVICE, C_QUERY_PORT, C_QUERY_GID,
	C_QUERY_PKEY, C_ALLOC_PD, C_CREATE_COMP_CHANNEL, C_CREATE_CQ, C_CREATE_QP, C_CREATE_AH,
	C_REG_MR, C_MODIFY_QP, C_POST_SEND, C_POST_RECV, C_REQ_NOTIFY_CQ, C_POLL_CQ, C_GET_CQ_EVENT,
	C_ACK_CQ_EVENTS, C_GET_ASYNC_EVENT, C_ACK_ASYNC_EVENT, C_DESTROY_QP, C_DESTROY_CQ,
	C_DESTROY_COMP_CHANNEL, C_DESTROY_AH, C_DEREG_MR, C_DEALLOC_PD, C_CLOSE_DEVICE, C_LOAD_LIBRARY,
	C_READ_SYSFS, C_QUERY_QP,
};
// clang-format on

struct device {
	struct ibv_context *ctx;
	struct ledger *led;
	uint64_t port_types;
	int wake;
	int doorbell; // eventfd that wakes the host after an urgent ring entry; -1: none
};

static inline int64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline int64_t now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

// add_count adds to a count of the ledger. Each word has one writing thread, so a load and a store are enough.
static inline void add_count(uint64_t *word, uint64_t n)
{
	__atomic_store_n(word, *word + n, __ATOMIC_RELEASE);
}

// set_call records the next call of a thread without clearing errno. Use it if nothing has
// touched errno since the last call, or if the next call does not set it.
static inline void set_call(struct thread_state *state, uint32_t call)
{
	__atomic_store_n(&state->call, call, __ATOMIC_RELEASE);
}

static inline void set_call_at(struct thread_state *state, uint32_t call, int64_t t)
{
	__atomic_store_n(&state->since, t, __ATOMIC_RELAXED);
	set_call(state, call);
}

// enter_call records a call and clears errno, since successful calls may leave any value in it
// and some calls fail without setting it.
static inline void enter_call(struct thread_state *state, uint32_t call, int64_t t)
{
	errno = 0;
	set_call_at(state, call, t);
}

static inline void leave_call(struct thread_state *state)
{
	set_call(state, C_NONE);
}

// CALL makes a call that may hang, and records it in the thread state meanwhile.
#define CALL(state, id, expr) \
	({ \
		enter_call(state, id, now()); \
		__typeof__(expr) value_ = (expr); \
		leave_call(state); \
		value_; \
	})

// PORT_CALL is CALL for a call about a port for whose end no other thread waits. It also records
// the TID, by which the host can see whether the thread waits in the kernel.
#define PORT_CALL(state, id, port, expr) \
	({ \
		__atomic_store_n(&(state)->thread, syscall(SYS_gettid), __ATOMIC_RELAXED); \
		__typeof__(expr) answer_ = CALL(state, (id) | (uint32_t)(port) << CALL_PORT_SHIFT, expr); \
		__atomic_store_n(&(state)->thread, 0, __ATOMIC_RELAXED); \
		answer_; \
	})

// failed converts the return value of a verb to a result. The man pages specify errno, but some drivers
// return -errno (siw's post verbs), or return -1 and set errno; others fail without setting errno.
static inline struct result failed(enum call call, int err)
{
	if (err == -1)
		err = errno;
	return (struct result){ err ? abs(err) : NO_ERRNO, call };
}

// await returns 0 when fd is readable, EIO when it is closed or broken, ETIMEDOUT at
// until, or ECANCELED after native_wake. until is CLOCK_MONOTONIC in ns; negative: no
// limit.
int await(struct device *d, int fd, int64_t until);
// wake_up makes an eventfd readable; clear_eventfd makes it unreadable again.
void wake_up(int fd);
void clear_eventfd(int fd);
// The rings (native_ring.c). publish_runs writes runs into the ring and rings the doorbell. publish_round writes a round,
// and rings only if the round did not succeed or half of the ring is in use.
void publish_runs(struct device *d, const struct run *runs, int n);
void publish_round(struct probe *p, const struct round *r);
// event_slot finds or adds the slot of an event's counts. The last slot counts all events that have no slot of their own.
struct ledger_event *event_slot(struct ledger *led, int32_t type, int32_t port);
// set_nonblocking sets O_NONBLOCK and returns an errno.
int set_nonblocking(int fd);

// verbs.Method and verbs.Outcome have the same order.
enum method { M_NONE, M_RC_WRITE, M_UD_SEND, M_FLUSH };
enum outcome { O_SUCCESS, O_ERROR, O_LOST_EVENT, O_LOST_COMPLETION, O_DISTURBED, O_CANCELED };

enum { QKEY = 0x11111111, MR_SIZE = 4096, UD_RECEIVES = 8 };

struct probe {
	struct device *d;
	struct ledger_probe *led;
	struct round_ring *ring;
	struct probe_config c;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_cq *send_cq; // ud_send only; without a channel, since the receives raise the events
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct ibv_ah *ah; // ud_send only; on RoCE it exists during a round only
	struct ibv_mr *mr;
	void *buffer;
	int unanswered;	     // consecutive address handles that the device did not create in time
	int nudge;	     // eventfd that ends a pause
	uint64_t round;	     // number of the last work request, which is its wr_id
	int receives, sends; // ud_send only: posted and not completed
	int again;	     // the round has sent a second datagram, at time sent_again
	int64_t sent_again;
	enum ibv_wc_status send_status; // of the round's send, if it failed
	int given_up;			// number of rounds that ended without their event
	int disturbed;			// the host was paused or suspended during the round
	int excused;			// number of disturbed rounds that ended without their event
	int usable;			// another round can succeed
	uint64_t held[O_CANCELED];	// rounds of a trial, by outcome
	uint64_t held_resent;
	struct round last; // last round of a trial
	int unacked;
	int64_t oldest; // time when the oldest unacknowledged event was read
};

#define PROBE_CALL(p, id, expr) CALL(&(p)->led->thread, id, expr)

// poll_result is the result of polling the completion queue.
struct poll_result {
	int mine;   // the completion of the current round was found
	int others; // number of completions of rounds that were given up
	int second; // the round's completion belongs to its second datagram
	enum ibv_wc_status status;
};

// Completions and their events (native_completions.c).
// poll_completions polls the CQ until it is empty, and returns an errno.
int poll_completions(struct probe *p, struct poll_result *s);
// read_cq_event reads one event and polls the completions that it announces. It returns
// EAGAIN if there is no event.
struct result read_cq_event(struct probe *p, struct poll_result *s, struct round *out);
void count_stray(struct probe *p, const struct poll_result *s);

// The parts of a probe that may be recreated (native_qp.c).
struct result make_qp(struct probe *p);
struct result drop_qp(struct probe *p);
// prepare_flush creates the queue pair that the next round of the flush method moves to the
// error state.
struct result prepare_flush(struct probe *p);
// acknowledge (native_completions.c) acknowledges all events that were read and returns
// their number; t is the current time.
int acknowledge(struct probe *p, int64_t t);

// ud_send, and the address with which a port sends to itself (native_ud.c).
struct ibv_ah_attr own_address(const struct probe *p);
// hold_address creates the address handle for a round unless it exists. The handle holds
// its entry of the GID table: while the handle exists, an address that is deleted and added
// again gets another index.
struct result hold_address(struct probe *p);
struct result drop_address(struct probe *p);
// missing_address reports whether hold_address found no address to send from. It also
// returns true if a device with the address does not answer for the first time; the next
// round then decides.
int missing_address(const struct probe *p, struct result r);
struct result post_datagram(struct probe *p, int64_t t);
struct result fill_receives(struct probe *p);
// poll_sends polls the completed sends, and returns an errno.
int poll_sends(struct probe *p);
// finish_sends waits until all sends have completed, or until the time until.
void finish_sends(struct probe *p, int64_t until);

// datagram returns the identifier of the round's datagrams; bit 0 is set in the second one.
static inline uint32_t datagram(const struct probe *p)
{
	return (uint32_t)p->round << 1 | (p->again ? 1 : 0);
}

#endif
