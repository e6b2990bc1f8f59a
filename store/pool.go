package store

import (
	"drtmd/store/layout"
	"drtmd/store/pool"
)

func (t *Table) entryPool() pool.Pool {
	return pool.Pool{At: t.at + entryPoolAt, First: t.entriesAt,
		End: t.entriesAt + t.config.Entries*t.stride, Size: t.stride, Next: layout.ValueOffset,
		State: layout.StateOffset, Stripe: t.stripe, TakeLocked: t.lacks(TakeLocked)}
}

func (t *Table) bucketPool() pool.Pool {
	return pool.Pool{At: t.at + bucketPoolAt, First: t.indirectAt, End: t.entriesAt,
		Size: layout.BucketBytes, Next: layout.SlotKeyOffset, Stripe: t.stripe}
}
