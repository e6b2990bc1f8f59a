package remote_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

func words(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

func value(n int, v uint64) []byte {
	b := make([]byte, n)
	binary.LittleEndian.PutUint64(b, v)
	return b
}

// crowded is a table in which most keys stand behind links.
func crowded(keys int) store.Config {
	return store.Config{ID: 1, Name: "crowded", ValueBytes: 8, MainBuckets: max(1, keys/32),
		IndirectBuckets: keys, Entries: 2 * keys}
}

func (h *host) load(keys int) {
	h.t.Helper()
	for k := range uint64(keys) {
		h.must(h.table.Load(k, value(8, k+100)))
	}
}

func TestLookupFindsEveryKeyAndNoOther(t *testing.T) {
	const keys = 300
	for _, x := range []struct {
		name  string
		bytes int // of the cache
	}{{"without cache", 0}, {"small cache", 2000}, {"large cache", 1 << 20}} {
		t.Run(x.name, func(t *testing.T) {
			eachHost(t, crowded(keys), func(t *testing.T, h *host) {
				h.load(keys)
				var cache *remote.Cache
				if x.bytes > 0 {
					cache = remote.NewCache(x.bytes, 2)
				}
				h.run(func(f *fiber.Fiber) error { return lookAll(f, h, cache, keys) })
			})
		})
	}
}

func lookAll(f *fiber.Fiber, h *host, cache *remote.Cache, keys int) error {
	for range 3 {
		for k := range uint64(2 * keys) {
			e, reads, err := h.client.Lookup(f, h.conn, h.remote, k, cache)
			if k >= uint64(keys) {
				if !errors.Is(err, remote.ErrNotFound) || reads == 0 {
					return fmt.Errorf("key %d: %+v after %d reads, %w", k, e, reads, err)
				}
				continue
			}
			if err != nil {
				return fmt.Errorf("key %d: %w", k, err)
			}
			if e.Cached != (reads == 0) {
				return fmt.Errorf("key %d: cached %v after %d reads", k, e.Cached, reads)
			}
			if off, _ := h.table.Find(k); uint64(off) != e.Off ||
				e.Addr != h.mr.Addr()+e.Off {
				return fmt.Errorf("key %d: found %+v, the host says %d", k, e, off)
			}
			if p, v, err := h.read(f, e, k); err != nil || p != layout.Live || v != k+100 {
				return fmt.Errorf("key %d: %s, value %d, %w", k, p, v, err)
			}
		}
	}
	return nil
}

// A batch gives what single look-ups give, and needs as many rounds as its longest.
func TestBatchOverlapsItsLookups(t *testing.T) {
	const keys = 256
	eachHost(t, crowded(keys), func(t *testing.T, h *host) {
		h.load(keys)
		h.run(func(f *fiber.Fiber) error {
			b := h.client.NewBatch()
			for range 2 {
				b.Reset()
				before, most, sum := h.worker.Stats, 0, 0
				for k := range uint64(keys) {
					if i := b.Add(h.conn, h.remote, k, nil); i != int(k) {
						return fmt.Errorf("index %d for look-up %d", i, k)
					}
				}
				if err := b.Await(f); err != nil {
					return err
				}
				for k := range uint64(keys) {
					e, err := b.Result(int(k))
					if off, _ := h.table.Find(k); err != nil || uint64(off) != e.Off {
						return fmt.Errorf("key %d: %+v, %w", k, e, err)
					}
					most, sum = max(most, b.Reads(int(k))), sum+b.Reads(int(k))
				}
				if n := h.worker.Stats.Posted - before.Posted; n != uint64(sum) {
					return fmt.Errorf("%d requests for %d reads", n, sum)
				}
				if n := h.worker.Stats.Switches - before.Switches; n > uint64(most)*keys/4 {
					return fmt.Errorf("%d waits for %d rounds", n, most)
				}
			}
			return nil
		})
	})
}

func TestBatchTellsWhichLookupFailed(t *testing.T) {
	eachHost(t, crowded(64), func(t *testing.T, h *host) {
		h.load(64)
		d := h.table.Describe()
		mr := h.mr.Remote()
		mr.Length = d.End - 1
		outside := remote.Open(d, mr)
		h.run(func(f *fiber.Fiber) error {
			b := h.client.NewBatch()
			b.Add(h.conn, h.remote, 1, nil)
			b.Add(h.conn, h.remote, 1000, nil)
			b.Add(h.conn, outside, 1, nil)
			if err := b.Await(f); !errors.Is(err, remote.ErrNotFound) {
				return fmt.Errorf("the first error is %w", err)
			}
			for i, want := range []error{nil, remote.ErrNotFound, remote.ErrBounds} {
				if _, err := b.Result(i); !errors.Is(err, want) {
					return fmt.Errorf("look-up %d: %w", i, err)
				}
			}
			bad := remote.Open(d, verbs.RemoteMR{Addr: mr.Addr, Length: d.End, RKey: ^mr.RKey})
			if _, _, err := h.client.Lookup(f, h.conn, bad, 1, nil); err == nil {
				return errors.New("a look-up with a wrong key succeeds")
			}
			return nil
		})
	})
}

// TestLookupsWhileTheTableChanges looks keys up that stay, and keys that come and go, while two
// workers of the host insert, delete and reclaim others around them: chains grow, shrink and give
// their buckets back all the time. A key that stays is always found.
func TestLookupsWhileTheTableChanges(t *testing.T) {
	const stay, move, rounds = 48, 48, 4000
	c := store.Config{ID: 1, Name: "stress", ValueBytes: 8, MainBuckets: 4, IndirectBuckets: 24,
		Entries: 128}
	for _, cached := range []bool{false, true} {
		t.Run(fmt.Sprintf("cached=%v", cached), func(t *testing.T) {
			h := newShmHost(t, c)
			h.load(stay)
			var done sync.WaitGroup
			stop := make(chan struct{})
			for i := range 2 {
				m := h.memory()
				done.Go(func() {
					if err := churn(c, m, uint64(i), stay, move, stop); err != nil {
						t.Error(err)
					}
				})
			}
			var cache *remote.Cache
			if cached {
				cache = remote.NewCache(1<<16, 1)
			}
			h.run(func(f *fiber.Fiber) error {
				defer close(stop)
				for i := range rounds {
					k := uint64(i) * 7919 % (stay + move)
					if err := lookOne(f, h, cache, k, k < stay); err != nil {
						return err
					}
				}
				return nil
			})
			done.Wait()
		})
	}
}

// lookOne looks a key up until its entry says that it is the right one.
func lookOne(f *fiber.Fiber, h *host, cache *remote.Cache, k uint64, stays bool) error {
	for range 1000 {
		e, _, err := h.client.Lookup(f, h.conn, h.remote, k, cache)
		switch {
		case errors.Is(err, remote.ErrUnstable):
			continue
		case errors.Is(err, remote.ErrNotFound) && !stays:
			return nil
		case err != nil:
			return fmt.Errorf("key %d: %w", k, err)
		}
		p, v, err := h.read(f, e, k)
		switch {
		case err != nil:
			return err
		case p == layout.Stale:
			h.client.Invalidate(h.remote, k, cache)
			continue
		case p == layout.Live && v != k+100 || p == layout.Absent && stays:
			return fmt.Errorf("key %d is %s with value %d", k, p, v)
		}
		return nil
	}
	return fmt.Errorf("key %d: every place was out of date", k)
}

// churn inserts and reclaims keys of its own parity above stay, in random order.
func churn(c store.Config, m *htm.Memory, parity, stay, move uint64, stop chan struct{}) error {
	table, err := store.Attach(c, m, 0)
	if err != nil {
		return err
	}
	r := htm.NewRegion(htm.Config{})
	random := rand.New(rand.NewPCG(parity, 1))
	live := map[uint64]bool{}
	highest := map[uint64]layout.Version{}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		k := stay + random.Uint64N(move)&^1 | parity
		v, err := toggle(table, r, k, live[k])
		if err != nil {
			return err
		}
		if v <= highest[k] {
			return fmt.Errorf("version of key %d goes from %s to %s", k, highest[k], v)
		}
		highest[k], live[k] = v, !live[k]
	}
}

// toggle inserts a key or takes it away, and gives the version that did so.
func toggle(t *store.Table, r *htm.Region, k uint64, live bool) (layout.Version, error) {
	for range 1_000_000 {
		if !r.Begin() {
			return 0, errors.New("nested region")
		}
		off, v, ok, err := t.EnsureIn(r, k, 0)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		if v.Live() != live {
			return 0, fmt.Errorf("key %d is at %s, live is %v", k, v, live)
		}
		if live {
			v = v.Deleted()
		} else {
			v = v.Inserted()
			r.Store64(t.Memory(), t.ValueOffset(off), k+100)
		}
		r.Store64(t.Memory(), t.VersionOffset(off), uint64(v))
		if live {
			if _, err := t.ReclaimIn(r, k, 0); err != nil {
				return 0, err
			}
		}
		if r.Commit(nil) {
			return v, nil
		}
	}
	return 0, fmt.Errorf("the region on key %d does not commit", k)
}

func TestLookupDoesNotAllocate(t *testing.T) {
	h := newShmHost(t, crowded(64))
	h.load(64)
	cache := remote.NewCache(1<<16, 2)
	h.run(func(f *fiber.Fiber) error {
		for name, c := range map[string]*remote.Cache{"without cache": nil, "cached": cache} {
			k := uint64(0)
			n := testing.AllocsPerRun(200, func() {
				if _, _, err := h.client.Lookup(f, h.conn, h.remote, k%64, c); err != nil {
					t.Error(err)
				}
				k++
			})
			if n != 0 {
				return fmt.Errorf("%s: %v allocations", name, n)
			}
		}
		return nil
	})
}
