package remote_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/hopscotch"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// hopHost is a host with a hopscotch table in a memory region of its own.
type hopHost struct {
	*host
	table  *hopscotch.Table
	remote *remote.Table
	region *htm.Region
	memory *htm.Memory
}

func eachHopHost(t *testing.T, c hopscotch.Config, test func(*testing.T, *hopHost)) {
	t.Helper()
	eachHost(t, store.For(1, "unused", 8, 1), func(t *testing.T, h *host) {
		mr, err := h.pd.AllocMR(c.Bytes(), verbs.AccessAll, verbs.MROptions{LineOwners: testOwners})
		h.must(err)
		x := &hopHost{host: h, region: htm.NewRegion(htm.Config{})}
		x.memory, err = view(mr)
		h.must(err)
		x.table, err = hopscotch.Format(c, x.memory, 0)
		h.must(err)
		x.remote = remote.Open(x.table.Describe(), mr.Remote())
		test(t, x)
	})
}

// TestHopscotchFindsEveryKeyAndNoOther: one READ for a key of a neighbourhood, which has its record too, and
// one more for each overflow block; three for a key that is absent and has no chain.
func TestHopscotchFindsEveryKeyAndNoOther(t *testing.T) {
	const keys = 300
	for _, bytes := range []int{8, 100, 1000} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			c := hopscotch.Config{ID: 1, Name: "t", ValueBytes: bytes, Homes: 250, Blocks: 100}
			eachHopHost(t, c, func(t *testing.T, x *hopHost) {
				for k := range uint64(keys) {
					x.must(x.table.Load(k, value(bytes, k+100)))
				}
				o := x.table.Occupancy()
				if o.Overflowed == 0 {
					t.Fatalf("%v", o)
				}
				x.run(func(f *fiber.Fiber) error { return x.lookAll(f, keys) })
			})
		})
	}
}

func (x *hopHost) lookAll(f *fiber.Fiber, keys uint64) error {
	b := x.client.NewBatch()
	d := x.table.Describe()
	inBlocks := d.Hopscotch()
	seen := map[int]int{}
	for from := uint64(0); from < 2*keys; from += 50 {
		b.Reset()
		for k := from; k < from+50; k++ {
			b.Add(x.conn, x.remote, k, nil)
		}
		_ = b.Await(f)
		for k := from; k < from+50; k++ {
			i := int(k - from)
			e, err := b.Result(i)
			off, there := x.table.Find(k)
			reads := b.Reads(i)
			switch {
			case there != (err == nil) || !there && !errors.Is(err, remote.ErrNotFound):
				return fmt.Errorf("key %d: %+v, %w; the host says %v", k, e, err, there)
			case !there && (b.Image(i) != nil || reads < 3):
				return fmt.Errorf("key %d, absent: %d READs, image %x", k, reads, b.Image(i))
			case !there:
				continue
			}
			seen[reads]++
			image := b.Image(i)
			if want := off >= inBlocks.Block(0); e.Off != uint64(off) || e.RKey != x.remote.RKey() ||
				want != (reads > 1) || reads > 4 {
				return fmt.Errorf("key %d at %d: %+v after %d READs", k, off, e, reads)
			}
			r := x.remote.Record()
			v := r.Value(image, make([]byte, r.Room))
			if layout.HeadOf(image).Match(k) != layout.Live || !r.Whole(image) ||
				binary.LittleEndian.Uint64(v) != k+100 {
				return fmt.Errorf("key %d: %x", k, image)
			}
			// And by the place, as who knows it reads it.
			if e, n, err := x.client.Lookup(f, x.conn, x.remote, k, nil); err != nil || e.Off != uint64(off) || n != reads {
				return fmt.Errorf("key %d: %+v, %d READs, %w", k, e, n, err)
			}
		}
	}
	if seen[1] < 200 || seen[2] == 0 {
		return fmt.Errorf("READs of look-ups: %v", seen)
	}
	return x.lookForAbsent(f, b, keys)
}

// lookForAbsent looks a key up that has no record and no chain: one READ proves nothing, three prove it in one trip, or in
// two if the first was for a key that is likely to be there.
func (x *hopHost) lookForAbsent(f *fiber.Fiber, b *remote.Batch, keys uint64) error {
	for k := keys; k < 2*keys; k++ {
		b.Reset()
		b.Add(x.conn, x.remote, k, nil)
		b.AddFor(x.conn, x.remote, k, nil, remote.Unproved)
		b.AddFor(x.conn, x.remote, k, nil, remote.ProvedAtOnce)
		b.AddFor(x.conn, x.remote, 0, nil, remote.ProvedAtOnce)
		_ = b.Await(f)
		if b.Trips(0) > 2 {
			continue // it has a chain
		}
		for i, want := range [...][2]int{{3, 2}, {1, 1}, {3, 1}} {
			_, err := b.Result(i)
			if got := [...]int{b.Reads(i), b.Trips(i)}; !errors.Is(err, remote.ErrNotFound) || got != want {
				return fmt.Errorf("key %d, absence %d: %w, READs and trips %v, want %v", k, i, err, got, want)
			}
		}
		if _, err := b.Result(3); err != nil || b.Trips(3) > 2 {
			return fmt.Errorf("key 0: %w after %d trips", err, b.Trips(3))
		}
	}
	return nil
}

// TestRecordsMoveUnderLookUps: a host inserts and gives back keys, so that others move, while a peer looks keys
// up that stay, that come and go, and that never come.
func TestRecordsMoveUnderLookUps(t *testing.T) {
	const stay, come = 40, 60
	c := hopscotch.Config{ID: 1, Name: "t", ValueBytes: 100, Homes: 60, Blocks: 40}
	eachHopHost(t, c, func(t *testing.T, x *hopHost) {
		for k := range uint64(stay) {
			v := value(100, k+100)
			binary.LittleEndian.PutUint64(v[92:], k+100)
			x.must(x.table.Load(k, v))
		}
		random := rand.New(rand.NewPCG(1, 2))
		var changes, done atomic.Int64
		places := map[uint64]int{}
		moves := 0
		change := func() error {
			for k := range uint64(stay) {
				off, _ := x.table.Find(k)
				if was, ok := places[k]; ok && was != off {
					moves++
				}
				places[k] = off
			}
			changes.Add(1)
			return x.toggle(stay + random.Uint64N(come))
		}
		ended := make(chan error, 1)
		goOn := func(*fiber.Fiber) {}
		switch t.Name() {
		case "TestRecordsMoveUnderLookUps/sim":
			goOn = func(f *fiber.Fiber) {
				f.Worker().Submit("host", func(f *fiber.Fiber) (err error) {
					for i := 0; i < 3 && err == nil; i++ {
						err = errors.Join(change(), f.Sleep(time.Duration(random.IntN(1000))))
					}
					return err
				}, nil)
			}
			ended <- nil
		default:
			go func() {
				var err error
				for err == nil && done.Load() == 0 {
					err = change()
				}
				ended <- err
			}()
		}
		keys := rand.New(rand.NewPCG(3, 4))
		lookups := 0
		x.run(func(f *fiber.Fiber) error {
			defer done.Store(1)
			for ; lookups < 3000 || changes.Load() < 3000 && lookups < 100_000; lookups++ {
				goOn(f)
				key := keys.Uint64N(stay + come + 20)
				if err := x.lookMoving(f, key, stay, stay+come); err != nil {
					return err
				}
			}
			return nil
		})
		x.must(<-ended)
		t.Logf("%d look-ups, %d changes, %d moves", lookups, changes.Load(), moves)
		if moves < 20 {
			t.Error("hardly a record that stays has moved")
		}
	})
}

// lookMoving looks a key up: below stay it is always there, from end on never.
func (x *hopHost) lookMoving(f *fiber.Fiber, key, stay, end uint64) error {
	b := x.client.NewBatch()
	b.Add(x.conn, x.remote, key, nil)
	err := b.Await(f)
	switch {
	case errors.Is(err, remote.ErrUnstable):
		return nil
	case errors.Is(err, remote.ErrNotFound):
		if key < stay {
			return fmt.Errorf("key %d is not found", key)
		}
		return nil
	case err != nil:
		return err
	case key >= end:
		return fmt.Errorf("key %d is found", key)
	}
	image := b.Image(0)
	r := x.remote.Record()
	if layout.HeadOf(image).Match(key) == layout.Live && r.Whole(image) {
		v := r.Value(image, make([]byte, r.Room))
		if got := binary.LittleEndian.Uint64(v); got != key+100 || binary.LittleEndian.Uint64(v[92:]) != got {
			return fmt.Errorf("key %d has value %x", key, v)
		}
	}
	b.Reset()
	return nil
}

// toggle inserts a key, or deletes it and gives its record back.
func (x *hopHost) toggle(key uint64) error {
	for range 1000 {
		x.region.Begin()
		off, v, ok, err := x.table.EnsureIn(x.region, key, 0)
		if err != nil {
			x.region.Abort(1)
			if errors.Is(err, store.ErrFull) {
				return nil
			}
			return err
		}
		if !ok {
			continue
		}
		if v.Live() {
			x.region.Store64(x.memory, off+layout.VersionOffset, uint64(v.Deleted()))
			if ok, err = x.table.ReclaimIn(x.region, key, 0); err != nil {
				return err
			}
		} else {
			r := x.table.Record()
			image := make([]byte, r.Bytes)
			b := value(r.ValueBytes, key+100)
			binary.LittleEndian.PutUint64(b[92:], key+100)
			binary.LittleEndian.PutUint64(image, key)
			r.Put(image, v.Inserted(), b)
			ok = x.region.Store64(x.memory, off+layout.VersionOffset, uint64(v.Inserted())) &&
				x.region.Store(x.memory, off+layout.ValueOffset, image[layout.ValueOffset:])
		}
		if ok && x.region.Commit(nil) {
			return nil
		}
	}
	return fmt.Errorf("key %d cannot be changed", key)
}

// FuzzProbe: whatever memory holds, a look-up ends, reads inside of the table only, and finds nothing but its
// key.
func FuzzProbe(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint64(5), uint8(3), uint8(2))
	f.Add([]byte{}, layout.NoKey, uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, memory []byte, key uint64, homes, blocks uint8) {
		c := hopscotch.Config{ID: 1, Name: "t", ValueBytes: 8, Homes: int(homes) + 1, Blocks: int(blocks)}
		d := c.Descriptor(0)
		table := remote.Open(d, verbs.RemoteMR{Length: d.End})
		at := 0
		next := func(b []byte) {
			for i := range b {
				b[i] = 0
				if len(memory) > 0 {
					b[i] = memory[at%len(memory)]
					at++
				}
			}
		}
		var p remote.Probe
		n := 0
		for p.Start(table, key); !p.Done(); n++ {
			off, bytes := p.Next()
			if uint64(off) < d.MainOffset || uint64(off+bytes) > d.End || n > 5000 {
				t.Fatalf("READ %d of %d bytes at %d", n, bytes, off)
			}
			b, guard := make([]byte, bytes), make([]byte, 8)
			next(b)
			if at, ok := p.Guard(); ok {
				if uint64(at) < d.MainOffset || uint64(at+8) > d.End {
					t.Fatalf("the hop word is at %d", at)
				}
				next(guard)
			}
			p.Feed(b, layout.Hop(binary.LittleEndian.Uint64(guard)))
			if e, err := p.Result(); p.Done() && err == nil {
				if layout.HeadOf(b[p.Found():]).Match(key) == layout.Stale || !d.Entry(e.Off) {
					t.Fatalf("found %+v", e)
				}
			}
		}
	})
}
