//go:build cgo

/* device.c: listing, opening and querying devices, and their asynchronous events. */

#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* failure: errno of a call that failed, also where the library forgot to set one. */
static int failure(void)
{
	return errno ? errno : EIO;
}

/* drt_devices: the caller frees the list with ibv_free_device_list. */
int drt_devices(struct ibv_device ***list, int *n)
{
	errno = 0;
	*list = ibv_get_device_list(n);
	return *list ? 0 : failure();
}

int drt_open(struct ibv_device *dev, struct ibv_context **out)
{
	errno = 0;
	*out = ibv_open_device(dev);
	return *out ? 0 : failure();
}

int drt_query_device(struct ibv_context *ctx, struct ibv_device_attr *out)
{
	return ibv_query_device(ctx, out);
}

static int mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0;
}

int drt_query_port(struct ibv_context *ctx, int port, struct drt_port *out)
{
	struct ibv_port_attr a;
	int err = ibv_query_port(ctx, port, &a);

	if (err)
		return err;
	*out = (struct drt_port){
		.state = a.state,
		.max_mtu = mtu_bytes(a.max_mtu),
		.active_mtu = mtu_bytes(a.active_mtu),
		.gid_entries = a.gid_tbl_len,
		.link_layer = a.link_layer,
		.grh_required = (a.flags & IBV_QPF_GRH_REQUIRED) != 0,
		.lid = a.lid,
		.max_msg_bytes = a.max_msg_sz,
	};
	return 0;
}

/* drt_query_gids: the valid entries of one port; room is for those of all ports. */
int drt_query_gids(struct ibv_context *ctx, int port, struct drt_gid *out, int room, int *n)
{
	struct ibv_gid_entry *e = calloc(room, sizeof *e);
	ssize_t got;

	*n = 0;
	if (!e)
		return ENOMEM;
	got = ibv_query_gid_table(ctx, e, room, 0);
	for (ssize_t i = 0; i < got; i++) {
		struct drt_gid *g = &out[*n];

		if (e[i].port_num != (uint32_t)port)
			continue;
		memset(g, 0, sizeof *g);
		memcpy(g->gid, e[i].gid.raw, sizeof g->gid);
		g->index = e[i].gid_index;
		g->type = e[i].gid_type;
		_Static_assert(sizeof g->netdev >= IF_NAMESIZE, "room for an interface name");
		if (!e[i].ndev_ifindex || !if_indextoname(e[i].ndev_ifindex, g->netdev))
			g->netdev[0] = 0;
		++*n;
	}
	free(e);
	return got < 0 ? (int)-got : 0;
}

int drt_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

/*
 * drt_get_event: takes and acknowledges one event; EAGAIN if none waits. What is behind the
 * event cannot be destroyed before it is acknowledged, so it is read first.
 */
int drt_get_event(struct ibv_context *ctx, struct drt_event *out)
{
	struct ibv_async_event ev;

	errno = 0;
	if (ibv_get_async_event(ctx, &ev))
		return failure();
	*out = (struct drt_event){ .type = ev.event_type };
	snprintf(out->text, sizeof out->text, "%s", ibv_event_type_str(ev.event_type));
	switch (ev.event_type) {
	case IBV_EVENT_CQ_ERR:
		out->cq_id = (uint32_t)(uintptr_t)ev.element.cq->cq_context;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		out->qpn = ev.element.qp->qp_num;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		out->port = ev.element.port_num;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&ev);
	return 0;
}
