package sherman_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/proto/rtx"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/proto/rtx/sherman"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a fiber with a client of a memory node in virtual time, with nodes of so many bytes.
func run(t *testing.T, nodeBytes int, onEvent func(sim.Event), body func(*rtx.Client, *fiber.Fiber) error) []byte {
	t.Helper()
	return rtxtest.Run(t, rtx.Shape{Owners: 1, Slots: 32, Roots: 2, Objects: 1 << 12,
		Classes: []rtx.Class{{Bytes: 64, Blocks: 256}, {Bytes: nodeBytes, Blocks: 4096}}}, onEvent, body)
}

// The tree is a sorted map, through splits of every level, and when it has been emptied.
func TestATreeIsASortedMap(t *testing.T) {
	for _, versions := range []bool{false, true} {
		var reached []rtx.Ptr
		memory := run(t, 192, nil, func(c *rtx.Client, f *fiber.Fiber) error {
			tree, err := sherman.Open(c, sherman.Config{Class: 1, Versions: versions,
				Cache: sherman.NewCache(16, c.Payload(1))})
			if err != nil {
				return err
			}
			model, r := map[uint64]uint64{}, rand.New(rand.NewPCG(3, 4))
			for i := range 6000 {
				key, value := r.Uint64N(1000), r.Uint64()
				if i > 4000 { // most deletions come late
					key = uint64(i-4000) % 1000
				}
				err := c.Run(f, func(tx *rtx.Tx) error { return step(tx, tree, model, r.IntN(4), key, value, i > 4000) })
				if err != nil {
					return fmt.Errorf("step %d, key %d: %w", i, key, err)
				}
			}
			reached, err = tree.Check(func(p rtx.Ptr) (value []byte, err error) {
				err = c.View(f, func(tx *rtx.Tx) error {
					b, err := tx.Read(p)
					value = slices.Clone(b)
					return err
				})
				return value, err
			})
			t.Logf("versions %v: %d nodes, %d keys", versions, len(reached), len(model))
			return err
		})
		must(t, rtx.Audit(memory, reached))
	}
}

// step is an operation on the tree and on its model.
func step(tx *rtx.Tx, tree *sherman.Tree, model map[uint64]uint64, kind int, key, value uint64, deletes bool) error {
	want, there := model[key]
	wrong := func(what string, got any) error {
		return fmt.Errorf("%s gives %v, the model has %d, %v", what, got, want, there)
	}
	e, ok, err := tree.Get(tx, key)
	if err != nil || ok != there || ok && e.Value != want {
		return wrong("Get", fmt.Sprint(e, ok, err))
	}
	switch {
	case deletes && kind < 3:
		_, ok, err = tree.Delete(tx, key)
		if err != nil || ok != there {
			return wrong("Delete", fmt.Sprint(ok, err))
		}
		delete(model, key)
	case kind < 2:
		if e, ok, err = tree.Insert(tx, key, value); err != nil || ok == there || !ok && e.Value != want {
			return wrong("Insert", fmt.Sprint(e, ok, err))
		}
		if ok {
			model[key] = value
		}
	case kind == 2:
		if e, ok, err = tree.Update(tx, key, value); err != nil || ok != there {
			return wrong("Update", fmt.Sprint(e, ok, err))
		}
		if ok {
			model[key] = value
		}
	default:
		to := key + value%30
		var got, all []uint64
		err := tree.Scan(tx, key, to, func(e sherman.Entry) bool {
			got = append(got, e.Key)
			return true
		})
		for _, k := range slices.Sorted(maps.Keys(model)) {
			if k >= key && k <= to {
				all = append(all, k)
			}
		}
		if err != nil || !slices.Equal(got, all) {
			return wrong("Scan", fmt.Sprint(got, err, " not ", all))
		}
	}
	return nil
}

// Section 5, Table 2: nodes of 1 KB; 62 entries of 8 + 8 bytes, or 41 with versions; in ascending order a leaf splits
// once in 31 insertions, as its upper half stays. A look-up whose way is cached READs one leaf and its metadata twice.
func TestNodesAndLookupsOfSherman(t *testing.T) {
	seen := sim.Traffic{Node: "n0"}

	run(t, 1024, seen.Note, func(c *rtx.Client, f *fiber.Fiber) error {
		tree, err := sherman.Open(c, sherman.Config{Class: 1})
		if err != nil {
			return err
		}
		const keys = 62 * 20
		logged := func() uint64 { return c.Stats().Commits - c.Stats().Unlogged }
		for key := range uint64(keys) {
			if key == 62 && logged() != 1 { // the root
				t.Errorf("%d commits with a log for the first 62 keys", logged())
			}
			err := c.Run(f, func(tx *rtx.Tx) error { _, _, err := tree.Insert(tx, key, key); return err })
			if err != nil {
				return err
			}
		}
		if n := logged(); n != 1+(keys-62+30)/31 {
			t.Errorf("%d commits with a log for %d keys", n, keys)
		}
		look := func(key uint64) error {
			return c.View(f, func(tx *rtx.Tx) error {
				e, ok, err := tree.Get(tx, key)
				if err == nil && (!ok || e.Value != key) {
					t.Errorf("key %d: %v, %v", key, e, ok)
				}
				return err
			})
		}
		if err := look(500); err != nil {
			return err
		}
		seen = sim.Traffic{Node: "n0"}
		if err := look(500); err != nil {
			return err
		}
		if seen.Reads != 3 || seen.Bytes.Read != 1024+2*16 {
			t.Errorf("a look-up takes %d READs of %d bytes", seen.Reads, seen.Bytes.Read)
		}
		start := f.Now()
		if err := look(500); err != nil {
			return err
		}
		t.Logf("a cached look-up takes %s", f.Now()-start)
		return nil
	})
}

// With a hint a cached look-up is one round trip: the leaf and its metadata, read together. With a copy of the leaf it
// is one READ, of the metadata. Either takes at most 1.3 times as long as a READ of a leaf.
func TestACachedLookUpIsOneRoundTrip(t *testing.T) {
	const bytes = 1024
	t.Run("hint", func(t *testing.T) { lookUpCached(t, bytes, nil, 2, bytes+16) })
	t.Run("copy", func(t *testing.T) { lookUpCached(t, bytes, rtx.NewCopies(64, bytes), 1, 16) })
}

// lookUpCached has a look-up of a leaf that a client knows take some READs of some bytes.
func lookUpCached(t *testing.T, bytes int, copies *rtx.Copies, reads, read int) {
	seen := sim.Traffic{Node: "n0"}

	shape := rtx.Shape{Owners: 1, Slots: 32, Roots: 2, Objects: 1 << 8,
		Classes: []rtx.Class{{Bytes: 64, Blocks: 256}, {Bytes: bytes, Blocks: 256}}}
	size, err := shape.Bytes()
	must(t, err)
	rtxtest.RunOn(t, size, shape.Format, seen.Note, func(f *fiber.Fiber, m rtxtest.Machine) error {
		c, err := rtx.Attach(f, rtx.Config{Conn: m.Conn, PD: m.PD, Memory: m.Memory, Clock: m.Clock, Rand: m.Rand,
			EarlyLocks: true, Hints: rtx.NewHints(1 << 10), Copies: copies})
		if err != nil {
			return err
		}
		tree, err := sherman.Open(c, sherman.Config{Class: 1})
		if err != nil {
			return err
		}
		for key := range uint64(200) {
			if err := c.Run(f, func(tx *rtx.Tx) error { _, _, err := tree.Insert(tx, key, key); return err }); err != nil {
				return err
			}
		}
		look := func() error {
			return c.View(f, func(tx *rtx.Tx) error {
				e, ok, err := tree.Get(tx, 77)
				if err == nil && (!ok || e.Value != 77) {
					t.Errorf("%v, %v", e, ok)
				}
				return err
			})
		}
		buffer, err := m.PD.AllocMR(bytes, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
		if err == nil {
			err = look()
		}
		if err != nil {
			return err
		}
		start := f.Now()
		if err := m.Conn.Read(f, buffer.SGE(0, bytes), m.Memory.Addr, m.Memory.RKey); err != nil {
			return err
		}
		one := f.Now() - start
		seen, start = sim.Traffic{Node: "n0"}, f.Now()
		if err := look(); err != nil {
			return err
		}
		if took := f.Now() - start; seen.Reads != reads || seen.Bytes.Read != read || took > one*13/10 {
			t.Errorf("a look-up takes %d READs of %d bytes, and %s; a READ of %d bytes takes %s", seen.Reads, seen.Bytes.Read, took,
				bytes, one)
		} else {
			t.Logf("a cached look-up takes %s, a READ %s", took, one)
		}
		return buffer.Close()
	})
}
