// A stand-in for libibverbs: one device without hardware. A test orders its faults
// through a page of shared memory. The stand-in checks the rules of the real library
// that a caller can break (acknowledge before destroy, children before parents, the
// attributes of each state) and records the first violation.
#ifndef STANDIN_H
#define STANDIN_H

#include <stdint.h>

// The numbers of the calls are those of enum call in package native.
#include "../../../device/native/native_lib.h"

// The behaviour of a provider, and of the kernel driver behind it, that differs from
// rxe: errnos, 0 if the call succeeds. The values are in
// internal/conformance/standin/profiles.go.
struct provider {
	int32_t refuse_rc, refuse_ud, refuse_channel, refuse_ah, refuse_rts; // SILENTLY: no errno
	int32_t flush;
	int32_t dead_open, dead_command, dead_destroy; // in error state
	uint32_t commands;			       // bit mask of the calls that are firmware commands
};

enum { SILENTLY = -1 };

// How a posted receive is flushed when its queue pair is moved to the error state:
// with an event, in the library without an event, not at all.
enum { FLUSH_EVENT, FLUSH_SILENT, FLUSH_NEVER };

// The test maps the same page. It compares size with its own structure.
struct control {
	int32_t size, fail_call, fail_errno, fail_skip, fail_style, hang_call;
	int32_t ignore_acks, wc_status, post_err, legacy, port_state, link_layer, lid;
	int32_t removed, cursor, async_write, channel_write, gate, entered, trace_len;
	int32_t crash_call, crash_signal, flood, attack, speed, fail_always;
	int32_t arm, event_delay_us, closed_again, port_flags;
	// dead: the device is in error state; disassociate: the device is removed at the
	// next call.
	int32_t dead, disassociate, command_us, flushes;
	int32_t hang_in_kernel; // a call that hangs does so in state D
	// Faults of datagrams and writes between queue pairs (fabric.c): the port whose datagrams or writes are lost, 0 for
	// none; whether sends are held back; how long a write without an answer is repeated, 0 for ever; which byte of a
	// datagram is changed on its way, from 1, and how many bytes are added.
	int32_t lose_datagrams, lose_writes, hold_sends, retry_us, corrupt, stretch;
	int32_t dropped; // datagrams for which there was no receive
	// The answer of ibv_query_port_speed, in units of 100 Mb/s, or its errno if negative; 0: the device does not support
	// the query.
	int32_t effective_speed;
	int32_t phys_state, ports,
		sm_lid;	  // of the port and the device; 0: LinkUp, two ports, LID 1; sm_lid -1: none
	int32_t unlisted; // the library has no provider for the device
	struct provider provider;
	uint32_t calls[32]; // how often each call was made and not refused
	uint64_t cq, qp, srq, wq;
	char plan[256];
	char violation[256];
	char trace[1 << 18];
};

// MEMORY is the number that a memory region adds to the handle of its protection domain, which counts the domain's children.
enum { MEMORY = 1 << 16 };

// How a call fails: as in its man page, with a negative errno, with -1 or NULL and
// errno, or with -1 or NULL alone.
enum { STYLE_MANUAL, STYLE_NEGATIVE, STYLE_MINUS_ONE, STYLE_SILENT };

// When arming a queue raises an event by itself: never; if there is a completion
// beyond the consumer index, which the arm carries on mlx5 for example; always. With
// ARM_AT_POLL each arm except the first takes effect in the next poll.
enum { ARM_NEVER, ARM_BY_INDEX, ARM_ALWAYS, ARM_AT_POLL };

struct standin_cq {
	struct ibv_cq cq;
	struct ibv_wc *ring; // of cq.cqe elements
	uint32_t head, count, reported, async_reported;
	int armed, delayed; // delayed: number of events on their way
	int arms, noted;    // noted: an arm takes effect in the next poll
};

struct standin_receive {
	uint64_t wr_id;
	void *at;
	uint32_t length;
};

struct standin_qp {
	struct ibv_qp qp;
	struct ibv_qp_cap cap;
	struct standin_receive receives[64];
	uint32_t first_receive, posted, reported;
	void *buffer; // of its receives
	int port, access;
	uint32_t qkey, dest, sq_psn, rq_psn;
	struct standin_qp *next;  // in the list of queue pairs whose destroy has failed
	struct standin_qp *other; // in the list of all queue pairs
};

struct standin_channel {
	struct ibv_comp_channel channel;
	int write_end; // -1 after a removal
};

extern struct control *control;
extern pthread_mutex_t lock;
extern pthread_cond_t changed;
extern int live; // objects that are not destroyed yet
extern struct ibv_comp_channel *channels[16];

void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void violated(const char *format, ...) __attribute__((format(printf, 1, 2)));
// begin prints, dies, hangs or fails a call as ordered. It writes no trace. It returns 0
// if the call continues.
int begin(enum call call);

// refused fails a call with one of the provider's errnos, without a command to the device.
// It returns 0 if the call continues.
int refused(enum call call, int32_t err);
// answer returns the answer to a call: the device's errno in error state if the call
// is a command to the device, the kernel's EIO after a removal, else 0.
int answer(enum call call);

// attack tries operations that a library must not be able to do, and records the result of each.
void attack(void);

void remove_device(void);
// disassociated reports whether the kernel answers EIO to a destroy.
int disassociated(void);
// write_late makes the device write into the receives of queue pairs whose destroy has
// failed.
void write_late(void);

int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

// Datagrams and writes between queue pairs (fabric.c). The caller holds the lock. enlist makes a queue pair reachable, and
// delist undoes that.
void enlist(struct standin_qp *s);
void delist(struct standin_qp *s);
int is_fabric_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr);
int fabric_send(struct standin_qp *s, const struct ibv_send_wr *wr);
// release_sends completes the sends that were held back, unless they still are.
void release_sends(void);
// in_use reports whether a datagram that was not sent yet uses an address handle.
int in_use(const struct ibv_ah *ah);

// perform executes the next step of the plan with the completion of a work request.
// It returns the result of the post verb.
int perform(struct standin_cq *cq, const struct ibv_wc *own);
void push(struct standin_cq *cq, const struct ibv_wc *wc);
void release_kept(struct standin_cq *cq);
void event(struct standin_cq *cq, int always);
extern enum ibv_wc_status send_status; // of the datagrams that are sent
extern enum release { NEVER, AFTER_ARM, WHEN_EMPTY } release;

#endif
