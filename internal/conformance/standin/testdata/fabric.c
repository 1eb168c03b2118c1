#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

// Datagrams and writes between queue pairs, whose ports are all on one network. They arrive immediately, within the post verb.

static struct standin_qp *all;

void enlist(struct standin_qp *s)
{
	s->other = all;
	all = s;
}

static struct standin_qp *find(uint32_t number, int type)
{
	struct standin_qp *s = all;

	while (s && (s->qp.qp_num != number || (int)s->qp.qp_type != type))
		s = s->other;
	return s;
}

// held are sends that have not completed.
static struct held {
	struct standin_cq *cq;
	struct ibv_ah *ah;
	struct ibv_wc wc;
} held[1024];
static int helds;

static int held_of(const struct standin_qp *s)
{
	int i, n = 0;

	for (i = 0; i < helds; i++)
		n += held[i].wc.qp_num == s->qp.qp_num;
	return n;
}

int in_use(const struct ibv_ah *ah)
{
	int i;

	for (i = 0; i < helds; i++)
		if (held[i].ah == ah)
			return 1;
	return 0;
}

void release_sends(void)
{
	int i;

	if (control->hold_sends)
		return;
	for (i = 0; i < helds; i++)
		push(held[i].cq, &held[i].wc);
	helds = 0;
}

// The sends of a destroyed queue pair never complete.
void delist(struct standin_qp *s)
{
	struct standin_qp **at = &all;
	int i, n = 0;

	while (*at && *at != s)
		at = &(*at)->other;
	if (*at)
		*at = s->other;
	for (i = 0; i < helds; i++)
		if (held[i].wc.qp_num != s->qp.qp_num)
			held[n++] = held[i];
	helds = n;
}

int is_fabric_send(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	if (qp->qp_type == IBV_QPT_UD)
		return wr->opcode == IBV_WR_SEND;
	return ((const struct standin_qp *)qp)->dest != qp->qp_num;
}

static int takes(const struct standin_qp *s)
{
	return s && (s->qp.state == IBV_QPS_RTR || s->qp.state == IBV_QPS_RTS);
}

// arrive writes a datagram into the next receive, after a header with arbitrary contents.
static void arrive(struct standin_qp *to, const struct standin_qp *from, const struct ibv_sge *what)
{
	struct standin_receive *r = &to->receives[to->first_receive % 64];
	struct ibv_wc wc = { .wr_id = r->wr_id,
			     .opcode = IBV_WC_RECV,
			     .byte_len = 40 + what->length + control->stretch,
			     .src_qp = from->qp.qp_num,
			     .qp_num = to->qp.qp_num,
			     .wc_flags = IBV_WC_GRH };

	to->first_receive++;
	to->posted--;
	if (wc.byte_len > r->length) {
		wc.status = IBV_WC_LOC_LEN_ERR;
		to->qp.state = IBV_QPS_ERR;
	} else {
		memset(r->at, 0xee, 40);
		memcpy((char *)r->at + 40, (void *)(uintptr_t)what->addr, what->length);
		if (control->corrupt)
			((char *)r->at)[39 + control->corrupt] ^= 0x40;
	}
	push((struct standin_cq *)to->qp.recv_cq, &wc);
	event((struct standin_cq *)to->qp.recv_cq, 0);
}

static int send_datagram(struct standin_qp *s, const struct ibv_send_wr *wr)
{
	struct standin_qp *to = find(wr->wr.ud.remote_qpn, IBV_QPT_UD);

	if (wr->num_sge != 1 || wr->send_flags != (IBV_SEND_INLINE | IBV_SEND_SIGNALED) ||
	    wr->sg_list->length > s->cap.max_inline_data)
		violated("post_send of a datagram of %d elements, flags %#x", wr->num_sge, wr->send_flags);
	if (!wr->wr.ud.ah || wr->wr.ud.ah->pd != s->qp.pd)
		violated("post_send of a datagram without an address handle of its protection domain");
	if (helds == 1024 || held_of(s) == (int)s->cap.max_send_wr)
		return ENOMEM;
	held[helds++] = (struct held){ (struct standin_cq *)s->qp.send_cq,
				       wr->wr.ud.ah,
				       { .wr_id = wr->wr_id,
					 .status = control->wc_status > 0 ? control->wc_status : 0,
					 .qp_num = s->qp.qp_num } };
	release_sends();
	if (control->lose_datagrams == s->port || !takes(to) || to->qkey != wr->wr.ud.remote_qkey)
		return 0;
	if (to->posted)
		arrive(to, s, wr->sg_list);
	else
		control->dropped++;
	return 0;
}

// retry is a write that has not been acknowledged.
struct retry {
	uint32_t number;
	uint64_t wr_id;
};

static void *give_up(void *arg)
{
	struct retry *r = arg;
	struct ibv_wc wc = { .wr_id = r->wr_id, .status = IBV_WC_RETRY_EXC_ERR };
	struct standin_qp *s;

	usleep(control->retry_us);
	pthread_mutex_lock(&lock);
	s = find(r->number, IBV_QPT_RC);
	if (s) {
		s->qp.state = IBV_QPS_ERR;
		push((struct standin_cq *)s->qp.send_cq, &wc);
		event((struct standin_cq *)s->qp.send_cq, 0);
	}
	pthread_mutex_unlock(&lock);
	free(r);
	return NULL;
}

static void give_up_later(const struct standin_qp *s, const struct ibv_send_wr *wr)
{
	struct retry *r;
	pthread_t thread;

	if (!control->retry_us)
		return;
	r = malloc(sizeof *r);
	*r = (struct retry){ s->qp.qp_num, wr->wr_id };
	if (pthread_create(&thread, NULL, give_up, r) || pthread_detach(thread))
		abort();
}

// A zero-length write needs no memory of the peer, but the peer's queue pair must allow writes and expect this packet number.
static int write_nothing(struct standin_qp *s, const struct ibv_send_wr *wr)
{
	struct ibv_wc wc = { .wr_id = wr->wr_id, .opcode = IBV_WC_RDMA_WRITE, .qp_num = s->qp.qp_num };
	struct standin_qp *to = find(s->dest, IBV_QPT_RC);

	if (wr->opcode != IBV_WR_RDMA_WRITE || wr->num_sge || !(wr->send_flags & IBV_SEND_SIGNALED))
		violated("post_send of a write of %d elements, flags %#x", wr->num_sge, wr->send_flags);
	if (control->lose_writes == s->port || !takes(to) || to->dest != s->qp.qp_num ||
	    to->rq_psn != s->sq_psn || !(to->access & IBV_ACCESS_REMOTE_WRITE)) {
		give_up_later(s, wr);
		return 0;
	}
	if (to->qp.pd->handle >= MEMORY)
		violated("a peer's writes can reach memory");
	s->sq_psn = to->rq_psn = (s->sq_psn + 1) & 0xffffff;
	push((struct standin_cq *)s->qp.send_cq, &wc);
	event((struct standin_cq *)s->qp.send_cq, 0);
	return 0;
}

int fabric_send(struct standin_qp *s, const struct ibv_send_wr *wr)
{
	if (s->qp.state != IBV_QPS_RTS)
		violated("post_send in state %d", s->qp.state);
	if (control->dead)
		return 0;
	return s->qp.qp_type == IBV_QPT_UD ? send_datagram(s, wr) : write_nothing(s, wr);
}
