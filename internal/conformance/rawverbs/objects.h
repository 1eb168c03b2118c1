// Verbs objects for tests. Every function returns 0 or a positive errno.
#ifndef RDMA_EVENTS_RAWVERBS_H
#define RDMA_EVENTS_RAWVERBS_H

struct objects;

// objects_make creates a PD, a CQ of at least cqe completions, an SRQ if srq is set, and a queue pair of an
// IBV_QPT_* type in state RESET.
int objects_make(void *context, int cqe, int srq, int type, struct objects **out);
// objects_cqe returns the real size of the CQ in completions.
int objects_cqe(const struct objects *o);
// objects_init, _ready_to_receive and _ready_to_send move the queue pair, which is its own peer, to the next
// state.
int objects_init(struct objects *o);
int objects_ready_to_receive(struct objects *o);
int objects_ready_to_send(struct objects *o);
// objects_move moves the queue pair to an IBV_QPS_* state that needs no further attributes.
int objects_move(struct objects *o, int state);
// objects_post_* post n work requests without data. Receives go to the SRQ if there is one.
int objects_post_writes(struct objects *o, int n);
int objects_post_sends(struct objects *o, int n);
int objects_post_receives(struct objects *o, int n);
// objects_limit arms the SRQ's limit.
int objects_limit(struct objects *o, int limit);
// objects_poll polls up to 64 completions; status is the IBV_WC_* of the last one.
int objects_poll(struct objects *o, int *n, int *status);
// objects_destroy blocks until all events that were read have been acknowledged.
int objects_destroy(struct objects *o);

#endif
