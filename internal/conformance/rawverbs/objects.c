//go:build guest

#include <errno.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "objects.h"

struct objects {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
};

// siw's post verbs return -errno.
static int positive(int err)
{
	return abs(err);
}

static int fill(struct objects *o, int cqe, int srq, int type)
{
	struct ibv_srq_init_attr queue = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct ibv_qp_init_attr pair = {
		.qp_type = type,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	o->pd = ibv_alloc_pd(o->ctx);
	if (!o->pd)
		return errno;
	o->cq = ibv_create_cq(o->ctx, cqe, NULL, NULL, 0);
	if (!o->cq)
		return errno;
	if (srq && !(o->srq = ibv_create_srq(o->pd, &queue)))
		return errno;
	pair.send_cq = pair.recv_cq = o->cq;
	pair.srq = o->srq;
	o->qp = ibv_create_qp(o->pd, &pair);
	return o->qp ? 0 : errno;
}

int objects_make(void *context, int cqe, int srq, int type, struct objects **out)
{
	struct objects *o = calloc(1, sizeof *o);
	int err;

	if (!o)
		return ENOMEM;
	o->ctx = context;
	err = fill(o, cqe, srq, type);
	if (err)
		objects_destroy(o);
	else
		*out = o;
	return err;
}

int objects_cqe(const struct objects *o)
{
	return o->cq->cqe;
}

int objects_init(struct objects *o)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	return ibv_modify_qp(o->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int objects_ready_to_receive(struct objects *o)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = o->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } },
	};

	if (ibv_query_gid(o->ctx, 1, 0, &a.ah_attr.grh.dgid))
		return errno;
	return ibv_modify_qp(o->qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int objects_ready_to_send(struct objects *o)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 3, .max_rd_atomic = 1 };

	return ibv_modify_qp(o->qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int objects_move(struct objects *o, int state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	return ibv_modify_qp(o->qp, &a, IBV_QP_STATE);
}

static int post(struct objects *o, enum ibv_wr_opcode opcode, int n)
{
	struct ibv_send_wr wr = { .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
	int err = 0;

	while (n-- > 0 && !err)
		err = positive(ibv_post_send(o->qp, &wr, &bad));
	return err;
}

int objects_post_writes(struct objects *o, int n)
{
	return post(o, IBV_WR_RDMA_WRITE, n);
}

int objects_post_sends(struct objects *o, int n)
{
	return post(o, IBV_WR_SEND, n);
}

int objects_post_receives(struct objects *o, int n)
{
	// siw refuses a receive without an element.
	struct ibv_sge nothing = { 0 };
	struct ibv_recv_wr wr = { .sg_list = &nothing, .num_sge = 1 }, *bad;
	int err = 0;

	while (n-- > 0 && !err)
		err = positive(o->srq ? ibv_post_srq_recv(o->srq, &wr, &bad)
				      : ibv_post_recv(o->qp, &wr, &bad));
	return err;
}

int objects_limit(struct objects *o, int limit)
{
	struct ibv_srq_attr a = { .srq_limit = limit };

	return ibv_modify_srq(o->srq, &a, IBV_SRQ_LIMIT);
}

int objects_poll(struct objects *o, int *n, int *status)
{
	struct ibv_wc wc[64];

	*n = ibv_poll_cq(o->cq, 64, wc);
	if (*n > 0)
		*status = wc[*n - 1].status;
	return *n < 0 ? EIO : 0;
}

int objects_destroy(struct objects *o)
{
	int err = 0, e;

	if (o->qp && (e = ibv_destroy_qp(o->qp)))
		err = e;
	if (o->srq && (e = ibv_destroy_srq(o->srq)) && !err)
		err = e;
	if (o->cq && (e = ibv_destroy_cq(o->cq)) && !err)
		err = e;
	if (o->pd && (e = ibv_dealloc_pd(o->pd)) && !err)
		err = e;
	free(o);
	return err;
}
