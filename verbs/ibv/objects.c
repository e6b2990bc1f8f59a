//go:build cgo

/* objects.c: creation, transitions and destruction of verbs objects. */

#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int failure(void)
{
	return errno ? errno : EIO;
}

int drt_alloc_pd(struct ibv_context *ctx, struct ibv_pd **out)
{
	errno = 0;
	*out = ibv_alloc_pd(ctx);
	return *out ? 0 : failure();
}

int drt_reg_mr(struct ibv_pd *pd, void *addr, size_t size, uint32_t access, struct ibv_mr **out)
{
	errno = 0;
	*out = ibv_reg_mr(pd, addr, size, access);
	return *out ? 0 : failure();
}

int drt_create_channel(struct ibv_context *ctx, struct ibv_comp_channel **out)
{
	errno = 0;
	*out = ibv_create_comp_channel(ctx);
	return *out ? 0 : failure();
}

/* drt_create_cq: where the driver has no single-threaded queues, an ordinary one serves. */
int drt_create_cq(struct ibv_context *ctx, int depth, uint32_t id, struct ibv_comp_channel *ch,
		  int single, struct drt_cq **out)
{
	void *context = (void *)(uintptr_t)id;

	if (single) {
		struct ibv_cq_init_attr_ex a = {
			.cqe = depth,
			.cq_context = context,
			.channel = ch,
			.wc_flags = IBV_WC_STANDARD_FLAGS,
			.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
			.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
		};
		struct ibv_cq_ex *ex = ibv_create_cq_ex(ctx, &a);

		if (ex) {
			*out = (struct drt_cq *)ibv_cq_ex_to_cq(ex);
			return 0;
		}
	}
	errno = 0;
	*out = (struct drt_cq *)ibv_create_cq(ctx, depth, context, ch, 0);
	return *out ? 0 : failure();
}

int drt_destroy_cq(struct drt_cq *cq)
{
	return ibv_destroy_cq(cq_of(cq));
}

/* drt_create_qp: caps say what is asked for, and afterwards what was granted. */
int drt_create_qp(struct ibv_pd *pd, struct drt_cq *send, struct drt_cq *recv, int ud,
		  struct drt_ahs *ahs, struct drt_caps *caps, struct drt_qp **out)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq_of(send),
		.recv_cq = cq_of(recv),
		.qp_type = ud ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = {
			.max_send_wr = caps->send_wr,
			.max_recv_wr = caps->recv_wr,
			.max_send_sge = caps->send_sge,
			.max_recv_sge = caps->recv_sge,
			.max_inline_data = caps->inline_bytes,
		},
	};
	struct drt_qp *qp = calloc(1, sizeof *qp);

	if (!qp)
		return ENOMEM;
	errno = 0;
	qp->qp = ibv_create_qp(pd, &a);
	if (!qp->qp) {
		int err = failure();

		free(qp);
		return err;
	}
	qp->ahs = ud ? ahs : NULL;
	*caps = (struct drt_caps){ a.cap.max_send_wr, a.cap.max_recv_wr, a.cap.max_send_sge,
				   a.cap.max_recv_sge, a.cap.max_inline_data };
	*out = qp;
	return 0;
}

int drt_destroy_qp(struct drt_qp *qp)
{
	int err = ibv_destroy_qp(qp->qp);

	if (!err)
		free(qp);
	return err;
}

uint32_t drt_qpn(struct drt_qp *qp)
{
	return qp->qp->qp_num;
}

/* drt_posting: whether a post that may use an address handle is under way. */
int drt_posting(struct drt_qp *qp)
{
	return atomic_load(&qp->posting) != 0;
}

static struct ibv_ah_attr path_attr(const struct drt_path *p)
{
	struct ibv_ah_attr a = {
		.dlid = p->lid,
		.sl = p->service_level,
		.is_global = p->grh != 0,
		.port_num = p->port,
	};

	if (p->grh) {
		memcpy(a.grh.dgid.raw, p->gid, sizeof p->gid);
		a.grh.sgid_index = p->gid_index;
		a.grh.hop_limit = p->hop_limit;
		a.grh.traffic_class = p->traffic_class;
	}
	return a;
}

static enum ibv_mtu mtu_code(int bytes)
{
	enum ibv_mtu m = IBV_MTU_256;

	while (m < IBV_MTU_4096 && (128 << m) < bytes)
		m++;
	return m;
}

int drt_to_init(struct drt_qp *qp, const struct drt_qp_attr *a)
{
	struct ibv_qp_attr v = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = 0,
		.port_num = a->port,
		.qkey = a->qkey,
		.qp_access_flags = a->access,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	return ibv_modify_qp(qp->qp, &v, mask | (a->ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int drt_to_rtr(struct drt_qp *qp, const struct drt_qp_attr *a)
{
	struct ibv_qp_attr v = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_code(a->mtu),
		.dest_qp_num = a->peer_qpn,
		.rq_psn = a->peer_psn,
		.max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer,
	};
	int mask = IBV_QP_STATE;

	if (!a->ud) {
		v.ah_attr = path_attr(&a->path);
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return ibv_modify_qp(qp->qp, &v, mask);
}

int drt_to_rts(struct drt_qp *qp, const struct drt_qp_attr *a)
{
	struct ibv_qp_attr v = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = a->psn,
		.timeout = a->timeout,
		.retry_cnt = a->retry,
		.rnr_retry = a->rnr_retry,
		.max_rd_atomic = a->max_rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (!a->ud)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp->qp, &v, mask);
}

int drt_to_error(struct drt_qp *qp)
{
	struct ibv_qp_attr v = { .qp_state = IBV_QPS_ERR };

	return ibv_modify_qp(qp->qp, &v, IBV_QP_STATE);
}

int drt_to_reset(struct drt_qp *qp)
{
	struct ibv_qp_attr v = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(qp->qp, &v, IBV_QP_STATE);
}

int drt_query_state(struct drt_qp *qp, int *state)
{
	struct ibv_qp_attr v;
	struct ibv_qp_init_attr init;
	int err = ibv_query_qp(qp->qp, &v, IBV_QP_STATE, &init);

	*state = v.qp_state;
	return err;
}

int drt_create_ah(struct ibv_pd *pd, const struct drt_path *path, struct ibv_ah **out)
{
	struct ibv_ah_attr a = path_attr(path);

	errno = 0;
	*out = ibv_create_ah(pd, &a);
	return *out ? 0 : failure();
}

struct drt_ahs *drt_ahs_new(void)
{
	return calloc(1, sizeof(struct drt_ahs));
}

void drt_ahs_free(struct drt_ahs *ahs)
{
	for (int i = 0; i < DRT_AH_BLOCK; i++)
		free(ahs->block[i]);
	free(ahs);
}

int drt_ah_set(struct drt_ahs *ahs, uint32_t handle, struct ibv_ah *ah)
{
	uint32_t b = handle / DRT_AH_BLOCK;

	if (b >= DRT_AH_BLOCK)
		return ENOMEM;
	if (!ahs->block[b]) {
		void *block = calloc(DRT_AH_BLOCK, sizeof(*ahs->block[b]));

		if (!block)
			return ENOMEM;
		ahs->block[b] = block;
	}
	ahs->block[b][handle % DRT_AH_BLOCK] = ah;
	return 0;
}
