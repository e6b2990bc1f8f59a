/*
 * shim.h: the C side of the provider. Thin: it translates flat structures and hides the unions,
 * bit-fields and macros of verbs.h, whose shape differs between rdma-core versions. It stores no
 * Go pointer beyond a call, and every function that can fail returns an errno, 0 for success.
 */
#ifndef DRT_SHIM_H
#define DRT_SHIM_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* The layouts of verbs.WR, verbs.RecvWR and verbs.WC; both sides assert them. */
struct drt_wr {
	uint64_t token, id;
	uint8_t op, flags, num_sge, pad;
	uint32_t imm;
	uint64_t remote_addr;
	uint32_t rkey, remote_qpn;
	uint64_t compare_add, swap;
	uint32_t remote_qkey, ah;
	struct ibv_sge sge[4];
};

struct drt_recv_wr {
	uint64_t token, id;
	uint32_t num_sge, pad;
	struct ibv_sge sge[4];
};

struct drt_wc {
	uint64_t id;
	uint32_t status, op, byte_len, imm, qpn, src_qpn, vendor_err, flags, raw, pad;
};

/* How many requests were taken, and why the next was not (0: all were). */
struct drt_posted {
	int32_t n, err;
};

/* Opaque to Go: see internal.h. */
struct drt_ahs;
struct drt_qp;
/*
 * An ibv_cq under a name of which Go knows no fields: passing a structure that has pointers makes
 * it look for Go pointers in it, at each poll.
 */
struct drt_cq;

struct drt_port {
	int state, max_mtu, active_mtu, gid_entries, link_layer, grh_required;
	uint16_t lid;
	uint32_t max_msg_bytes;
};

struct drt_gid {
	uint8_t gid[16];
	uint32_t index, type;
	char netdev[16];
};

struct drt_caps {
	uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_bytes;
};

struct drt_path {
	uint8_t gid[16];
	int grh, gid_index, port;
	uint16_t lid;
	uint8_t hop_limit, traffic_class, service_level;
};

/* Attributes of the transitions; each reads its own part. */
struct drt_qp_attr {
	int port, ud;
	uint32_t qkey, access;
	struct drt_path path;
	int mtu; /* bytes */
	uint32_t peer_qpn, peer_psn, psn;
	int max_dest_rd_atomic, max_rd_atomic, min_rnr_timer, timeout, retry, rnr_retry;
};

struct drt_event {
	int type, port;
	uint32_t qpn, cq_id;
	char text[64];
};

/* device.c */
int drt_devices(struct ibv_device ***list, int *n);
int drt_open(struct ibv_device *dev, struct ibv_context **out);
int drt_query_device(struct ibv_context *ctx, struct ibv_device_attr *out);
int drt_query_port(struct ibv_context *ctx, int port, struct drt_port *out);
int drt_query_gids(struct ibv_context *ctx, int port, struct drt_gid *out, int room, int *n);
int drt_nonblocking(int fd);
int drt_get_event(struct ibv_context *ctx, struct drt_event *out);

/* objects.c */
int drt_alloc_pd(struct ibv_context *ctx, struct ibv_pd **out);
int drt_reg_mr(struct ibv_pd *pd, void *addr, size_t size, uint32_t access, struct ibv_mr **out);
int drt_create_channel(struct ibv_context *ctx, struct ibv_comp_channel **out);
int drt_create_cq(struct ibv_context *ctx, int depth, uint32_t id, struct ibv_comp_channel *ch,
		  int single, struct drt_cq **out);
int drt_destroy_cq(struct drt_cq *cq);
int drt_create_qp(struct ibv_pd *pd, struct drt_cq *send, struct drt_cq *recv, int ud,
		  struct drt_ahs *ahs, struct drt_caps *caps, struct drt_qp **out);
int drt_destroy_qp(struct drt_qp *qp);
uint32_t drt_qpn(struct drt_qp *qp);
int drt_posting(struct drt_qp *qp);
int drt_to_init(struct drt_qp *qp, const struct drt_qp_attr *a);
int drt_to_rtr(struct drt_qp *qp, const struct drt_qp_attr *a);
int drt_to_rts(struct drt_qp *qp, const struct drt_qp_attr *a);
int drt_to_error(struct drt_qp *qp);
int drt_to_reset(struct drt_qp *qp);
int drt_query_state(struct drt_qp *qp, int *state);
int drt_create_ah(struct ibv_pd *pd, const struct drt_path *path, struct ibv_ah **out);
struct drt_ahs *drt_ahs_new(void);
void drt_ahs_free(struct drt_ahs *ahs);
int drt_ah_set(struct drt_ahs *ahs, uint32_t handle, struct ibv_ah *ah);

/* data.c */
struct drt_posted drt_post_send(struct drt_qp *qp, const struct drt_wr *wrs, int n);
struct drt_posted drt_post_recv(struct drt_qp *qp, const struct drt_recv_wr *wrs, int n);
int drt_poll(struct drt_cq *cq, struct drt_wc *wcs, int n);
int drt_arm(struct drt_cq *cq, int solicited_only);
int drt_get_cq_events(struct ibv_comp_channel *ch, uint32_t *ids, int room, int *n);

#endif
