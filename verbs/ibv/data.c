//go:build cgo

/* data.c: the data path. One call posts a list or polls a batch; nothing here allocates. */

#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>

_Static_assert(sizeof(struct drt_wr) == 128, "verbs.WR");
_Static_assert(offsetof(struct drt_wr, imm) == 20, "verbs.WR");
_Static_assert(offsetof(struct drt_wr, remote_addr) == 24, "verbs.WR");
_Static_assert(offsetof(struct drt_wr, compare_add) == 40, "verbs.WR");
_Static_assert(offsetof(struct drt_wr, remote_qkey) == 56, "verbs.WR");
_Static_assert(offsetof(struct drt_wr, sge) == 64, "verbs.WR");
_Static_assert(sizeof(struct drt_recv_wr) == 88, "verbs.RecvWR");
_Static_assert(offsetof(struct drt_recv_wr, sge) == 24, "verbs.RecvWR");
_Static_assert(sizeof(struct drt_wc) == 48, "verbs.WC");
_Static_assert(offsetof(struct drt_wc, raw) == 40, "verbs.WC");
_Static_assert(sizeof(struct ibv_sge) == 16, "verbs.SGE");
_Static_assert(offsetof(struct ibv_sge, length) == 8, "verbs.SGE");
_Static_assert(offsetof(struct ibv_sge, lkey) == 12, "verbs.SGE");
_Static_assert(IBV_ACCESS_LOCAL_WRITE == 1 && IBV_ACCESS_REMOTE_WRITE == 2 &&
		       IBV_ACCESS_REMOTE_READ == 4 && IBV_ACCESS_REMOTE_ATOMIC == 8,
	       "verbs.Access");
_Static_assert(IBV_WC_SUCCESS == 0 && IBV_WC_LOC_LEN_ERR == 1 && IBV_WC_WR_FLUSH_ERR == 5 &&
		       IBV_WC_RNR_RETRY_EXC_ERR == 13 && IBV_WC_GENERAL_ERR == 21,
	       "verbs.WCStatus");

/* CHUNK requests or completions are translated on the C stack at a time (8 KiB). */
enum { CHUNK = 64 };

/* By verbs.Opcode. */
static const enum ibv_wr_opcode opcodes[] = {
	0,
	IBV_WR_SEND,
	IBV_WR_SEND_WITH_IMM,
	IBV_WR_RDMA_WRITE,
	IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_FETCH_AND_ADD,
};
enum { OP_CAS = 6, OP_COUNT = sizeof opcodes / sizeof *opcodes };

/* verbs.Flags: signaled 1, fence 2, solicited 4, inline 8. */
static unsigned int send_flags(uint8_t f)
{
	return (f & 1 ? IBV_SEND_SIGNALED : 0) | (f & 2 ? IBV_SEND_FENCE : 0) |
	       (f & 4 ? IBV_SEND_SOLICITED : 0) | (f & 8 ? IBV_SEND_INLINE : 0);
}

static struct ibv_ah *ah_of(struct drt_ahs *ahs, uint32_t handle)
{
	uint32_t b = handle / DRT_AH_BLOCK;
	_Atomic(struct ibv_ah *) *block;

	if (b >= DRT_AH_BLOCK || !(block = ahs->block[b]))
		return NULL;
	return block[handle % DRT_AH_BLOCK];
}

static int translate(struct drt_qp *qp, const struct drt_wr *from, struct ibv_send_wr *to)
{
	if (from->op >= OP_COUNT || from->op == 0 || from->num_sge > 4)
		return EINVAL;
	to->wr_id = from->token;
	to->next = NULL;
	to->sg_list = (struct ibv_sge *)from->sge;
	to->num_sge = from->num_sge;
	to->opcode = opcodes[from->op];
	to->send_flags = send_flags(from->flags);
	to->imm_data = htonl(from->imm);
	if (qp->ahs) {
		to->wr.ud.ah = ah_of(qp->ahs, from->ah);
		to->wr.ud.remote_qpn = from->remote_qpn;
		to->wr.ud.remote_qkey = from->remote_qkey;
		return to->wr.ud.ah ? 0 : EINVAL;
	}
	if (from->op >= OP_CAS) {
		to->wr.atomic.remote_addr = from->remote_addr;
		to->wr.atomic.compare_add = from->compare_add;
		to->wr.atomic.swap = from->swap;
		to->wr.atomic.rkey = from->rkey;
	} else {
		to->wr.rdma.remote_addr = from->remote_addr;
		to->wr.rdma.rkey = from->rkey;
	}
	return 0;
}

/*
 * An error without a bad request means that the driver could not be told of the list (device
 * removed): nothing of it will run.
 */
static int accepted(int err, int n, const void *first, const void *bad, size_t size)
{
	if (!err)
		return n;
	return bad ? (int)(((const char *)bad - (const char *)first) / size) : 0;
}

static struct drt_posted post_send(struct drt_qp *qp, const struct drt_wr *wrs, int n)
{
	struct ibv_send_wr list[CHUNK], *bad;
	struct drt_posted done = { 0, 0 };

	while (done.n < n && !done.err) {
		int want = n - done.n < CHUNK ? n - done.n : CHUNK, refused = 0, k, got;

		for (k = 0; k < want; k++) {
			refused = translate(qp, &wrs[done.n + k], &list[k]);
			if (refused)
				break;
			if (k)
				list[k - 1].next = &list[k];
		}
		if (k) {
			bad = NULL;
			done.err = ibv_post_send(qp->qp, list, &bad);
			got = accepted(done.err, k, list, bad, sizeof *list);
			done.n += got;
		}
		if (!done.err)
			done.err = refused;
	}
	return done;
}

/* drt_post_send: the scatter lists stay where the caller has them; nothing is kept of them. */
struct drt_posted drt_post_send(struct drt_qp *qp, const struct drt_wr *wrs, int n)
{
	struct drt_posted done;

	if (!qp->ahs)
		return post_send(qp, wrs, n);
	atomic_fetch_add(&qp->posting, 1);
	done = post_send(qp, wrs, n);
	atomic_fetch_sub(&qp->posting, 1);
	return done;
}

struct drt_posted drt_post_recv(struct drt_qp *qp, const struct drt_recv_wr *wrs, int n)
{
	struct ibv_recv_wr list[CHUNK], *bad;
	struct drt_posted done = { 0, 0 };

	while (done.n < n && !done.err) {
		int k, want = n - done.n < CHUNK ? n - done.n : CHUNK;

		for (k = 0; k < want; k++) {
			const struct drt_recv_wr *from = &wrs[done.n + k];

			list[k] = (struct ibv_recv_wr){
				.wr_id = from->token,
				.next = k + 1 < want ? &list[k + 1] : NULL,
				.sg_list = (struct ibv_sge *)from->sge,
				.num_sge = from->num_sge,
			};
		}
		bad = NULL;
		done.err = ibv_post_recv(qp->qp, list, &bad);
		done.n += accepted(done.err, want, list, bad, sizeof *list);
	}
	return done;
}

static void translate_wc(const struct ibv_wc *from, struct drt_wc *to)
{
	enum { WITH_GRH = 1, WITH_IMM = 2, OP_RECV = 8, OP_RECV_WRITE_IMM = 9 };

	*to = (struct drt_wc){
		.id = from->wr_id,
		.status = from->status,
		.qpn = from->qp_num,
		.vendor_err = from->vendor_err,
		.raw = from->status,
	};
	if (from->status != IBV_WC_SUCCESS || !(from->opcode & IBV_WC_RECV))
		return;
	to->op = from->opcode == IBV_WC_RECV ? OP_RECV : OP_RECV_WRITE_IMM;
	to->byte_len = from->byte_len;
	to->src_qpn = from->src_qp;
	if (from->wc_flags & IBV_WC_GRH)
		to->flags |= WITH_GRH;
	if (from->wc_flags & IBV_WC_WITH_IMM) {
		to->flags |= WITH_IMM;
		to->imm = ntohl(from->imm_data);
	}
}

/* drt_poll: how many, or -1 if the queue is broken and nothing was taken. */
int drt_poll(struct drt_cq *cq, struct drt_wc *wcs, int n)
{
	struct ibv_wc chunk[CHUNK];
	int done = 0;

	while (done < n) {
		int want = n - done < CHUNK ? n - done : CHUNK;
		int got = ibv_poll_cq(cq_of(cq), want, chunk);

		if (got < 0)
			return done ? done : -1;
		for (int i = 0; i < got; i++)
			translate_wc(&chunk[i], &wcs[done + i]);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

int drt_arm(struct drt_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq_of(cq), solicited_only);
}

/* drt_get_cq_events: takes and acknowledges up to room events of a non-blocking channel. */
int drt_get_cq_events(struct ibv_comp_channel *ch, uint32_t *ids, int room, int *n)
{
	for (*n = 0; *n < room; ++*n) {
		struct ibv_cq *cq;
		void *context;

		errno = 0;
		if (ibv_get_cq_event(ch, &cq, &context))
			return errno == EAGAIN ? 0 : errno ? errno : EIO;
		ids[*n] = (uint32_t)(uintptr_t)context;
		ibv_ack_cq_events(cq, 1);
	}
	return 0;
}
