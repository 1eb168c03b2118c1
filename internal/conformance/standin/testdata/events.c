#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

// Events that were read and not yet acknowledged.
static struct ibv_async_event pending[64];
static int pendings;

struct description {
	uint64_t element;
	uint32_t type, reserved;
};

enum object { O_PORT, O_CQ, O_QP, O_SRQ, O_WQ };

static enum object object_of(unsigned type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR: return O_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: return O_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: return O_SRQ;
	case IBV_EVENT_WQ_FATAL: return O_WQ;
	}
	return O_PORT;
}

// As in libibverbs, the upper half of the union is garbage for port events, and for a
// type without a name the port is the truncated element.
static void fill(struct ibv_async_event *e, const struct description *d)
{
	memset(e, 0xee, sizeof *e);
	e->event_type = d->type;
	switch (object_of(d->type)) {
	case O_CQ: e->element.cq = (void *)(uintptr_t)d->element; break;
	case O_QP: e->element.qp = (void *)(uintptr_t)d->element; break;
	case O_SRQ: e->element.srq = (void *)(uintptr_t)d->element; break;
	case O_WQ: e->element.wq = (void *)(uintptr_t)d->element; break;
	case O_PORT: e->element.port_num = d->element; break;
	}
}

static void count(const struct ibv_async_event *e, int reported, int completed)
{
	if (object_of(e->event_type) == O_CQ && e->element.cq) {
		((struct standin_cq *)e->element.cq)->async_reported += reported;
		e->element.cq->async_events_completed += completed;
	}
	if (object_of(e->event_type) == O_QP && e->element.qp) {
		((struct standin_qp *)e->element.qp)->reported += reported;
		e->element.qp->events_completed += completed;
	}
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *e)
{
	struct description d;

	if (begin(C_GET_ASYNC_EVENT) || read(ctx->async_fd, &d, sizeof d) != sizeof d)
		return -1;
	pthread_mutex_lock(&lock);
	fill(e, &d);
	count(e, 1, 0);
	if (pendings < 64)
		pending[pendings++] = *e;
	note("get_async_event type=%d", e->event_type);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int same(const struct ibv_async_event *a, const struct ibv_async_event *b)
{
	return a->event_type == b->event_type && !memcmp(&a->element, &b->element, sizeof a->element);
}

void ibv_ack_async_event(struct ibv_async_event *e)
{
	int i;

	begin(C_ACK_ASYNC_EVENT);
	pthread_mutex_lock(&lock);
	for (i = 0; i < pendings && !same(&pending[i], e); i++)
		;
	if (i == pendings)
		violated("ack_async_event of type %d, which is not pending or was changed", e->event_type);
	else
		pending[i] = pending[--pendings];
	count(e, 0, 1);
	note("ack_async_event type=%d pending=%d", e->event_type, pendings);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	uint64_t handle;

	if (begin(C_GET_CQ_EVENT))
		return -1;
	if (control->removed) {
		// Before Linux 6.4 a nonblocking read of a closed channel fails with EAGAIN.
		errno = control->closed_again ? EAGAIN : EIO;
		return -1;
	}
	if (read(channel->fd, &handle, sizeof handle) != sizeof handle)
		return -1;
	pthread_mutex_lock(&lock);
	*cq = (void *)(uintptr_t)handle;
	*context = (*cq)->cq_context;
	((struct standin_cq *)*cq)->reported++;
	note("get_cq_event");
	pthread_mutex_unlock(&lock);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	struct standin_cq *own = (struct standin_cq *)cq;

	begin(C_ACK_CQ_EVENTS);
	pthread_mutex_lock(&lock);
	note("ack_cq_events n=%u", n);
	if (control->ignore_acks)
		n = 0;
	cq->comp_events_completed += n;
	if (cq->comp_events_completed > own->reported)
		violated("ack_cq_events: %u of %u", cq->comp_events_completed, own->reported);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}
