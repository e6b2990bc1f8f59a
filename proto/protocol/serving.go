package protocol

import (
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/recovery"
)

// Serving is what the workers of a member know together of the shards that it is the primary of. Each worker
// recovers what workers of its index on other nodes have left; a shard is served when all have. Any
// goroutine may call it.
type Serving struct {
	workers uint32
	shards  []atomic.Uint64 // by shard: epoch 32 | workers that have recovered it for that 32
	noted   atomic.Int64
	swaps   atomic.Int64
	// Kept are the records that are locked for transactions that are not decided.
	Kept recovery.Kept
}

// Noted adds to the number of transactions that the workers know and that are not decided, or takes from it.
func (s *Serving) Noted(n int) { s.noted.Add(int64(n)) }

// Settled reports whether no worker knows of a transaction that is not decided.
func (s *Serving) Settled() bool { return s.noted.Load() == 0 }

// Swapping adds to the number of records whose locks the machine's NIC has to give back for recovery, or takes from it.
func (s *Serving) Swapping(n int) { s.swaps.Add(int64(n)) }

// Swaps reports whether there are any.
func (s *Serving) Swaps() bool { return s.swaps.Load() != 0 }

// NewServing is that of a member with so many workers, in a cluster with so many shards, which serves what
// it serves from the beginning.
func NewServing(shards, workers int) *Serving {
	s := &Serving{workers: uint32(workers), shards: make([]atomic.Uint64, shards)}
	for i := range s.shards {
		s.shards[i].Store(uint64(workers))
	}
	return s
}

// Promote begins to recover a shard for an epoch. All workers may say so; it counts once.
func (s *Serving) Promote(shard proto.ShardID, epoch uint64) {
	for {
		old := s.shards[shard].Load()
		if old>>32 >= epoch&(1<<32-1) || s.shards[shard].CompareAndSwap(old, epoch<<32) {
			return
		}
	}
}

// Recovered notes that one worker has recovered a shard for an epoch: once each.
func (s *Serving) Recovered(shard proto.ShardID, epoch uint64) {
	for {
		old := s.shards[shard].Load()
		if old>>32 != epoch&(1<<32-1) || s.shards[shard].CompareAndSwap(old, old+1) {
			return
		}
	}
}

// Serves reports whether all workers have recovered a shard.
func (s *Serving) Serves(shard proto.ShardID) bool {
	return uint32(s.shards[shard].Load()) == s.workers
}
