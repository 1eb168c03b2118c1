// A stand-in for libibverbs: one device without hardware, whose faults a test
// orders through a page of shared memory. It keeps the rules of the real library
// that can be broken from outside (acknowledge before destroy, children before
// parents, the attributes of each state) and writes down who breaks them.
#ifndef STANDIN_H
#define STANDIN_H

#include <stdint.h>

// The numbers of the calls (enum call) are those of the native border.
#include "../../../native/native_lib.h"

// What a provider does and its kernel driver behind it, where that is not what rxe
// does: errnos, 0 if the call goes well. internal/verbs/verbstest/standin/profiles.go has them.
struct provider {
	int32_t refuse_rc, refuse_ud, refuse_channel, refuse_ah, refuse_rts; // SILENTLY: no errno
	int32_t flush;
	int32_t dead_open, dead_command, dead_destroy; // in error state
	uint32_t commands;			       // a bit for each call that asks the device
};

enum { SILENTLY = -1 };

// How a posted receive is flushed as its queue pair is moved to the error state:
// with an event, in the library without one, not at all.
enum { FLUSH_EVENT, FLUSH_SILENT, FLUSH_NEVER };

// The test maps the same page; it checks size against its own structure.
struct control {
	int32_t size, fail_call, fail_errno, fail_skip, fail_style, hang_call;
	int32_t ignore_acks, wc_status, post_err, legacy, port_state, link_layer, lid;
	int32_t removed, cursor, async_write, channel_write, gate, entered, trace_len;
	int32_t crash_call, crash_signal, flood, attack, speed, fail_always;
	int32_t arm, event_delay_us, closed_again, port_flags;
	// dead: the device is in error state; disassociate: it is taken away at the next call.
	int32_t dead, disassociate, command_us, flushes;
	struct provider provider;
	uint32_t calls[32]; // how often each was made and not refused
	uint64_t cq, qp, srq, wq;
	char plan[256];
	char violation[256];
	char trace[1 << 18];
};

// How a call fails: as its man page says, with a negative errno, with -1 or NULL
// and errno, or with -1 or NULL alone.
enum { STYLE_MANUAL, STYLE_NEGATIVE, STYLE_MINUS_ONE, STYLE_SILENT };

// When arming a queue makes an event by itself: never; where the arm carries the
// consumer index, as on mlx5, if there is anything beyond it; always. With
// ARM_AT_POLL each arm but the first is done by the next poll.
enum { ARM_NEVER, ARM_BY_INDEX, ARM_ALWAYS, ARM_AT_POLL };

struct standin_cq {
	struct ibv_cq cq;
	struct ibv_wc ring[64];
	uint32_t head, count, reported, async_reported;
	int armed, delayed; // delayed: events on their way
	int arms, noted;    // noted: an arm that the next poll does
};

struct standin_qp {
	struct ibv_qp qp;
	uint64_t receives[64];
	uint32_t first_receive, posted, reported;
	void *buffer; // of its receives
	struct standin_qp *next;
};

extern struct control *control;
extern pthread_mutex_t lock;
extern pthread_cond_t changed;
extern int live; // objects that are not destroyed yet
extern struct ibv_comp_channel *channels[16];

void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void violated(const char *format, ...) __attribute__((format(printf, 1, 2)));
// begin notes nothing; it prints, dies, hangs or fails a call as ordered; 0: go on.
int begin(enum call call);

// refused fails a call with one of the provider's errnos, and so the device was not
// asked; 0: it goes on.
int refused(enum call call, int32_t err);
// answer is what the device says to a call: an errno in error state, if the call is
// a command to it at all.
int answer(enum call call);

// attack tries what a library has no business to, and notes how that ends.
void attack(void);

void remove_device(void);
// disassociated reports whether the kernel answers EIO to a destroy.
int disassociated(void);
// write_late has the device write to the receives of queue pairs that it was not
// made to give up.
void write_late(void);

int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited_only);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

// perform does the next step of the plan with the completion of a work request.
// It returns what the post verb is to return.
int perform(struct standin_cq *cq, const struct ibv_wc *own);
void push(struct standin_cq *cq, const struct ibv_wc *wc);
void release_kept(struct standin_cq *cq);
void event(struct standin_cq *cq, int always);
extern enum ibv_wc_status send_status; // of the datagrams that are sent
extern enum release { NEVER, AFTER_ARM, WHEN_EMPTY } release;

#endif
