package remote_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"drtmd/htm"
	"drtmd/internal/testkit/raceskip"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// growingHost is a host whose table grows, and whose CPU inserts keys in ascending order.
type growingHost struct {
	*host
	growth *store.Growth
	table  *store.Growing
	region *htm.Region
	there  atomic.Uint64 // keys below are inserted
}

func (h *host) growing(c store.Config) *growingHost {
	h.t.Helper()
	x := &growingHost{host: h, region: htm.NewRegion(htm.Config{})}
	x.growth = store.NewGrowth(store.GrowthConfig{Table: c,
		Bound: &store.Bound{Bytes: 1 << 28, Setting: "test-bytes"},
		Alloc: func(_, bytes int) (*verbs.MR, error) {
			return h.pd.AllocMR(bytes, verbs.AccessAll, verbs.MROptions{LineOwners: testOwners})
		}})
	h.t.Cleanup(func() { h.must(x.growth.Close()) })
	var err error
	x.table, err = x.growth.Open(h.table, false, view)
	h.must(err)
	return x
}

// insert inserts the next key.
func (x *growingHost) insert() error {
	key := x.there.Load()
	for range 1000 {
		x.region.Begin()
		place, v, ok, err := x.table.EnsureIn(x.region, key, 0)
		switch {
		case errors.Is(err, store.ErrFull):
			x.region.Abort(1)
			if err := x.table.Grow(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case !ok:
			continue
		}
		m, off := x.table.At(place)
		x.region.Store64(m, off+layout.VersionOffset, uint64(v.Inserted()))
		x.region.Store64(m, off+layout.ValueOffset, key+1)
		if x.region.Commit(nil) {
			x.there.Add(1)
			return nil
		}
	}
	return fmt.Errorf("key %d cannot be inserted", key)
}

// lookUp looks a key up from elsewhere and reads its record; what it needs may be as of any moment.
func (x *growingHost) lookUp(f *fiber.Fiber, key uint64, cache *remote.Cache) (found bool, reads int,
	err error) {
	for range 100 {
		e, n, err := x.client.Lookup(f, x.conn, x.remote, key, cache)
		reads += n
		if errors.Is(err, remote.ErrNotFound) {
			return false, reads, nil
		}
		if err != nil {
			return false, reads, err
		}
		if addr, rkey := x.remote.Resolve(e.Off); addr != e.Addr || rkey != e.RKey {
			return false, reads, fmt.Errorf("place %#x is at %#x under %d, not at %#x under %d", e.Off, addr,
				rkey, e.Addr, e.RKey)
		}
		n = x.remote.Record().Bytes
		if err := x.conn.Read(f, x.buffer.SGE(0, n), e.Addr, e.RKey); err != nil {
			return false, reads, err
		}
		w := words(x.buffer.Bytes())
		switch layout.HeadOf(x.buffer.Bytes()).Match(key) {
		case layout.Live:
			if w[layout.ValueOffset/8] != key+1 {
				return false, reads, fmt.Errorf("key %d has value %d", key, w[layout.ValueOffset/8])
			}
			return true, reads, nil
		case layout.Absent:
			return false, reads, nil
		}
		x.client.Invalidate(x.remote, key, cache)
	}
	return false, reads, fmt.Errorf("key %d: every place was out of date", key)
}

// TestATableGrowsWhileOthersLookUp lets a table that begins with 100 records take 100,000, while a
// peer looks up keys that are there, that come meanwhile, and that never come, with a cache and without.
func TestATableGrowsWhileOthersLookUp(t *testing.T) {
	c := store.For(1, "grows", 8, 100)
	c.Grows = true
	t.Run("shm", func(t *testing.T) {
		x := newShmHost(t, c).growing(c)
		ended := make(chan error, 1)
		go func() {
			var err error
			for x.there.Load() < grown && err == nil {
				err = x.insert()
			}
			ended <- err
		}()
		x.watch(func(*fiber.Fiber) error { return nil })
		x.must(<-ended)
	})
	t.Run("sim", func(t *testing.T) {
		raceskip.Simulated(t)
		x := newSimHost(t, c).growing(c)
		// A fiber of its own inserts while READs are in flight.
		x.watch(func(f *fiber.Fiber) error {
			f.Worker().Submit("host", func(*fiber.Fiber) (err error) {
				for i := 0; i < 40 && x.there.Load() < grown && err == nil; i++ {
					err = x.insert()
				}
				return err
			}, nil)
			return nil
		})
	})
}

// grown is the number of records in the end.
const grown = 100_000

// watch looks keys up until all are inserted; before each look-up it calls goOn.
func (x *growingHost) watch(goOn func(*fiber.Fiber) error) {
	x.t.Helper()
	cache := remote.NewCache(1<<20, 4)
	lookups, late, total := 0, 0, 0
	random := rand.New(rand.NewPCG(1, 2))
	x.run(func(f *fiber.Fiber) error {
		for x.there.Load() < grown {
			if err := goOn(f); err != nil {
				return err
			}
			before := x.there.Load()
			key := random.Uint64N(before + before/8 + 40)
			if random.IntN(16) == 0 {
				key = grown + random.Uint64N(100)
			}
			found, reads, err := x.lookUp(f, key, [...]*remote.Cache{nil, cache}[random.IntN(2)])
			after := x.there.Load()
			switch {
			case err != nil:
				return err
			case !found && key < before:
				return fmt.Errorf("key %d of %d is not found", key, before)
			case found && key > after: // the one at after may be published, and not counted yet
				return fmt.Errorf("key %d of %d is found", key, after)
			case found && key >= before:
				late++
			}
			lookups++
			total += reads
		}
		return nil
	})
	x.t.Logf("%d look-ups with %d READs, %d of keys that had just come; %d extents of %d known", lookups,
		total, late, x.remote.Extents(), x.growth.Extents())
	if n := x.growth.Extents(); n < 8 || x.remote.Extents() < n-1 || lookups < 500 {
		x.t.Error("the table has not grown under look-ups")
	}
}
