// A stand-in for libibverbs: one device without hardware, whose faults a test
// orders through a page of shared memory. It keeps the rules of the real library
// that can be broken from outside (acknowledge before destroy, children before
// parents, the attributes of each state) and writes down who breaks them.
#ifndef STANDIN_H
#define STANDIN_H

#include <stdint.h>

// The numbers of the calls (enum call) are those of the native border.
#include "../../native_lib.h"

// The test maps the same page; it checks size against its own structure.
struct control {
	int32_t size, fail_call, fail_errno, fail_skip, fail_style, hang_call;
	int32_t ignore_acks, wc_status, post_err, legacy, port_state, link_layer, lid;
	int32_t removed, cursor, async_write, channel_write, gate, entered, trace_len;
	int32_t crash_call, crash_signal, flood, attack, speed, fail_always;
	int32_t arm, event_delay_us, closed_again, port_flags;
	uint64_t cq, qp, srq, wq;
	char plan[256];
	char violation[256];
	char trace[1 << 18];
};

// How a call fails: as its man page says, with a negative errno, with -1 or NULL
// and errno, or with -1 or NULL alone.
enum { STYLE_MANUAL, STYLE_NEGATIVE, STYLE_MINUS_ONE, STYLE_SILENT };

// When arming a queue makes an event by itself: never; where the arm carries the
// consumer index, as on mlx5, if there is anything beyond it; always.
enum { ARM_NEVER, ARM_BY_INDEX, ARM_ALWAYS };

struct standin_cq {
	struct ibv_cq cq;
	struct ibv_wc ring[64];
	uint32_t head, count, reported, async_reported;
	int armed, delayed; // delayed: events on their way
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
extern enum release { NEVER, AFTER_ARM, WHEN_EMPTY } release;

#endif
