/* internal.h: structures that only the C side looks into. */
#ifndef DRT_INTERNAL_H
#define DRT_INTERNAL_H

#include "shim.h"

#include <stdatomic.h>

static inline struct ibv_cq *cq_of(struct drt_cq *cq)
{
	return (struct ibv_cq *)cq;
}

/*
 * drt_ahs maps the handles of address handles to ibv_ah, for one device. Blocks are never moved
 * or freed while the device is open, so posts read it without a lock; drt_ah_set is serialized
 * by the caller.
 */
#define DRT_AH_BLOCK 1024
struct drt_ahs {
	_Atomic(struct ibv_ah *) *_Atomic block[DRT_AH_BLOCK];
};

/*
 * drt_qp is a queue pair and what a post needs beside it. posting counts posts of a UD queue
 * pair that are under way and may be using an address handle.
 */
struct drt_qp {
	struct ibv_qp *qp;
	struct drt_ahs *ahs; /* NULL for RC */
	atomic_uint posting;
};

#endif
