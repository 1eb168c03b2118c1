#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct standin_cq *s;

	if (begin(C_CREATE_CQ) || (channel && refused(C_CREATE_CQ, control->provider.refuse_channel)))
		return NULL;
	note("create_cq cqe=%d vector=%d channel=%d", cqe, vector, channel != NULL);
	if (vector >= ctx->num_comp_vectors || cqe > 1024) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof *s);
	s->cq.context = ctx;
	s->cq.channel = channel;
	s->cq.cq_context = context;
	s->cq.cqe = cqe;
	s->ring = calloc(cqe, sizeof *s->ring);
	if (channel) {
		channel->refcnt++;
		control->cq = (uintptr_t)s;
	}
	live++;
	return &s->cq;
}

// As in the kernel, a destroy drops queued events that were not read.
static void drop_events(struct ibv_comp_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	uint64_t handle;

	while (poll(&p, 1, 0) > 0 && p.revents == POLLIN && read(channel->fd, &handle, sizeof handle) > 0)
		;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct standin_cq *s = (struct standin_cq *)cq;
	int err = begin(C_DESTROY_CQ);

	pthread_mutex_lock(&lock);
	note("destroy_cq unacked=%u", s->reported - cq->comp_events_completed);
	if (s->reported != cq->comp_events_completed)
		violated("destroy_cq with %u events unacknowledged", s->reported - cq->comp_events_completed);
	while (s->reported != cq->comp_events_completed || s->async_reported != cq->async_events_completed ||
	       s->delayed)
		pthread_cond_wait(&changed, &lock);
	if (cq->channel) {
		cq->channel->refcnt--;
		drop_events(cq->channel);
	}
	live--;
	pthread_mutex_unlock(&lock);
	free(s->ring);
	free(s);
	return err;
}

static void deliver(struct standin_cq *s)
{
	uint64_t handle = (uintptr_t)s;
	int to = ((struct standin_channel *)s->cq.channel)->write_end;

	if (!control->removed && write(to, &handle, sizeof handle) < 0)
		abort();
}

static void *deliver_later(void *cq)
{
	struct standin_cq *s = cq;

	usleep(control->event_delay_us);
	pthread_mutex_lock(&lock);
	deliver(s);
	s->delayed--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

void event(struct standin_cq *s, int always)
{
	pthread_t thread;

	if ((!s->armed && !always) || !s->cq.channel)
		return;
	if (!always)
		s->armed = 0;
	if (!control->event_delay_us) {
		deliver(s);
		return;
	}
	s->delayed++;
	if (pthread_create(&thread, NULL, deliver_later, s) || pthread_detach(thread))
		abort();
}

void push(struct standin_cq *s, const struct ibv_wc *wc)
{
	if ((int)s->count == s->cq.cqe) {
		violated("completion queue overrun");
		return;
	}
	s->ring[(s->head + s->count++) % s->cq.cqe] = *wc;
}

int poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	struct standin_cq *s = (struct standin_cq *)cq;
	int err = begin(C_POLL_CQ), n = 0;

	if (err)
		return err;
	pthread_mutex_lock(&lock);
	release_sends();
	for (; n < room && s->count; n++) {
		wc[n] = s->ring[s->head++ % s->cq.cqe];
		s->count--;
	}
	if (cq->channel)
		note("poll_cq n=%d", n);
	s->armed |= s->noted;
	s->noted = 0;
	if (!n && cq->channel && release == WHEN_EMPTY) {
		release = NEVER;
		release_kept(s);
		event(s, 0);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct standin_cq *s = (struct standin_cq *)cq;
	int err = begin(C_REQ_NOTIFY_CQ);

	if (err || control->removed)
		return err ? err : EIO;
	pthread_mutex_lock(&lock);
	note("req_notify_cq solicited_only=%d", solicited_only);
	if (control->arm == ARM_AT_POLL && s->arms++)
		s->noted = 1;
	else
		s->armed = 1;
	if (release == AFTER_ARM)
		release = WHEN_EMPTY;
	if (control->arm == ARM_ALWAYS || (control->arm == ARM_BY_INDEX && s->count))
		event(s, 0);
	pthread_mutex_unlock(&lock);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	static uint32_t last = 0x100;
	int ud = init->qp_type == IBV_QPT_UD;
	struct standin_qp *s;

	if (begin(C_CREATE_QP) ||
	    refused(C_CREATE_QP, ud ? control->provider.refuse_ud : control->provider.refuse_rc))
		return NULL;
	s = calloc(1, sizeof *s);
	s->qp = (struct ibv_qp){
		.context = pd->context,
		.pd = pd,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.qp_num = ++last,
		.qp_type = init->qp_type,
	};
	s->cap = init->cap;
	pthread_mutex_lock(&lock);
	note("create_qp qp_num=%u type=%d", last, init->qp_type);
	control->qp = (uintptr_t)s;
	pd->handle++;
	live++;
	enlist(s);
	pthread_mutex_unlock(&lock);
	return &s->qp;
}

// Queue pairs whose destroy has failed. They still exist on the device.
static struct standin_qp *kept_qps;

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct standin_qp *s = (struct standin_qp *)qp;
	int err = begin(C_DESTROY_QP);

	pthread_mutex_lock(&lock);
	note("destroy_qp unacked=%u", s->reported - qp->events_completed);
	qp->pd->handle--;
	live--;
	delist(s);
	if (disassociated() && !getenv("RDMAV_ALLOW_DISASSOC_DESTROY"))
		err = EIO;
	else if (disassociated() && s->reported != qp->events_completed)
		violated("destroy_qp of an object whose event is not acknowledged frees it");
	while (!disassociated() && s->reported != qp->events_completed)
		pthread_cond_wait(&changed, &lock);
	if (err) {
		s->next = kept_qps;
		kept_qps = s;
	}
	pthread_mutex_unlock(&lock);
	if (!err)
		free(s);
	return err;
}

void write_late(void)
{
	struct standin_qp *s;

	for (s = kept_qps; s; s = s->next)
		if (s->buffer)
			memset(s->buffer, 0x5a, 40);
}

// The attributes that each transition must have, from the kernel's
// qp_state_table (drivers/infiniband/core/verbs.c).
static int wanted(const struct ibv_qp *qp, int to)
{
	int ud = qp->qp_type == IBV_QPT_UD;

	if (to == IBV_QPS_INIT && qp->state == IBV_QPS_RESET)
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (to == IBV_QPS_RTR && qp->state == IBV_QPS_INIT)
		return ud ? IBV_QP_STATE
			  : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (to == IBV_QPS_RTS && qp->state == IBV_QPS_RTR)
		return ud ? IBV_QP_STATE | IBV_QP_SQ_PSN
			  : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	return to == IBV_QPS_ERR && qp->state != IBV_QPS_RESET ? IBV_QP_STATE : -1;
}

static void note_attributes(const struct ibv_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	if (a->qp_state == IBV_QPS_INIT)
		note("modify_qp to=init mask=%#x own=%u port=%d pkey_index=%d access=%d qkey=%#x", mask,
		     qp->qp_num, a->port_num, a->pkey_index, a->qp_access_flags, a->qkey);
	else if (a->qp_state == IBV_QPS_RTR)
		note("modify_qp to=rtr mask=%#x own=%u path_mtu=%d dest_qp_num=%u sgid_index=%d global=%d "
		     "hop_limit=%d dlid=%d "
		     "gid_end=%d port=%d",
		     mask, qp->qp_num, a->path_mtu, a->dest_qp_num, a->ah_attr.grh.sgid_index,
		     a->ah_attr.is_global, a->ah_attr.grh.hop_limit, a->ah_attr.dlid,
		     a->ah_attr.grh.dgid.raw[15], a->ah_attr.port_num);
	else if (a->qp_state == IBV_QPS_RTS)
		note("modify_qp to=rts mask=%#x own=%u timeout=%d retry_cnt=%d rnr_retry=%d", mask,
		     qp->qp_num, a->timeout, a->retry_cnt, a->rnr_retry);
	else
		note("modify_qp to=%d mask=%#x own=%u", a->qp_state, mask, qp->qp_num);
}

// keep_attributes stores the attributes by which packets are checked.
static void keep_attributes(struct standin_qp *s, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_PORT)
		s->port = a->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		s->access = a->qp_access_flags;
	if (mask & IBV_QP_QKEY)
		s->qkey = a->qkey;
	if (mask & IBV_QP_DEST_QPN)
		s->dest = a->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		s->rq_psn = a->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		s->sq_psn = a->sq_psn;
}

static int flush(struct standin_qp *s)
{
	int err = 0;

	for (; s->posted && !err && control->provider.flush != FLUSH_NEVER; s->posted--) {
		struct ibv_wc wc = { .wr_id = s->receives[s->first_receive++ % 64].wr_id,
				     .status = IBV_WC_WR_FLUSH_ERR };

		control->flushes++;
		if (control->provider.flush == FLUSH_SILENT)
			push((struct standin_cq *)s->qp.recv_cq, &wc);
		else
			err = perform((struct standin_cq *)s->qp.recv_cq, &wc);
	}
	return err;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	int err = begin(C_MODIFY_QP);

	if (err || control->removed)
		return err ? err : EIO;
	pthread_mutex_lock(&lock);
	note_attributes(qp, a, mask);
	if (a->qp_state == IBV_QPS_RTS && control->provider.refuse_rts && qp->qp_type == IBV_QPT_RC) {
		err = control->provider.refuse_rts;
	} else if (mask != wanted(qp, a->qp_state)) {
		violated("modify_qp from %d to %d with mask %#x", qp->state, a->qp_state, mask);
		err = EINVAL;
	} else {
		qp->state = a->qp_state;
		keep_attributes((struct standin_qp *)qp, a, mask);
		if (qp->state == IBV_QPS_ERR)
			err = flush((struct standin_qp *)qp);
	}
	pthread_mutex_unlock(&lock);
	return err;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	int err = begin(C_QUERY_QP);

	if (err || control->removed)
		return err ? err : EIO;
	pthread_mutex_lock(&lock);
	note("query_qp mask=%#x own=%u", mask, qp->qp_num);
	a->qp_state = qp->state;
	init->qp_type = qp->qp_type;
	pthread_mutex_unlock(&lock);
	return 0;
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct standin_qp *s = (struct standin_qp *)qp;
	int err = begin(C_POST_RECV);

	*bad = wr;
	if (err)
		return err;
	if (wr->num_sge != 1 || wr->next)
		violated("post_recv with %d elements", wr->num_sge);
	pthread_mutex_lock(&lock);
	s->buffer = (void *)(uintptr_t)wr->sg_list->addr;
	if (s->posted >= s->cap.max_recv_wr || s->posted >= 64) {
		violated("receive queue overrun");
		err = ENOMEM;
	} else {
		s->receives[(s->first_receive + s->posted++) % 64] =
			(struct standin_receive){ wr->wr_id, s->buffer, wr->sg_list->length };
	}
	pthread_mutex_unlock(&lock);
	return err;
}

// A datagram to the port's own address uses up a receive; the plan applies to the
// completion of that receive. Then the send completes as well, with send_status.
// Without a receive the datagram is dropped, which is a violation, and the send does
// not complete.
static int receive(struct standin_qp *s, const struct ibv_send_wr *wr, const struct ibv_wc *sent)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV,
			     .byte_len = 40,
			     .imm_data = wr->imm_data,
			     .wc_flags = IBV_WC_GRH | IBV_WC_WITH_IMM },
		      done = *sent;
	int err;

	if (!s->posted) {
		violated("a datagram came without a receive");
		return 0;
	}
	wc.wr_id = s->receives[s->first_receive % 64].wr_id;
	err = perform((struct standin_cq *)s->qp.recv_cq, &wc);
	if (err)
		return err;
	s->posted--;
	s->first_receive++;
	done.status = send_status;
	push((struct standin_cq *)s->qp.send_cq, &done);
	return 0;
}

static void check_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	if (wr->next || wr->num_sge || !(wr->send_flags & IBV_SEND_SIGNALED) || qp->state != IBV_QPS_RTS)
		violated("post_send of %d elements, flags %#x, in state %d", wr->num_sge, wr->send_flags,
			 qp->state);
	if (qp->qp_type == IBV_QPT_UD &&
	    (wr->opcode != IBV_WR_SEND_WITH_IMM || !wr->wr.ud.ah || wr->wr.ud.remote_qpn != qp->qp_num ||
	     wr->wr.ud.remote_qkey != QKEY))
		violated("post_send of a datagram to %u", wr->wr.ud.remote_qpn);
	if (qp->qp_type == IBV_QPT_RC && wr->opcode != IBV_WR_RDMA_WRITE)
		violated("post_send with opcode %d", wr->opcode);
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_wc wc = { .wr_id = wr->wr_id, .qp_num = qp->qp_num };
	int err = begin(C_POST_SEND);

	*bad = wr;
	if (err || control->removed)
		return err ? err : EIO;
	pthread_mutex_lock(&lock);
	note("post_send wr_id=%llu", (unsigned long long)wr->wr_id);
	if (is_fabric_send(qp, wr)) {
		err = fabric_send((struct standin_qp *)qp, wr);
		pthread_mutex_unlock(&lock);
		return err;
	}
	check_send(qp, wr);
	if (qp->qp_type == IBV_QPT_UD)
		err = control->dead ? 0 : receive((struct standin_qp *)qp, wr, &wc);
	else if (!control->dead) // a dead device gets no request
		err = perform((struct standin_cq *)qp->send_cq, &wc);
	pthread_mutex_unlock(&lock);
	return err;
}
