package directory_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// sharp is the geometry of filters that tell a few lines apart.
var sharp = bloom.Geometry{Bits: 1 << 16, Hashes: 2}

// small is a directory whose caches overflow after a few lines.
func small(h directory.Hooks, m directory.Mutation) directory.Config {
	c := directory.Hades(2, 2)
	c.L1 = directory.Cache{Sets: 1, Ways: 2, Cycles: 2}
	c.L2 = directory.Cache{Sets: 2, Ways: 2, Cycles: 12}
	c.LLC = directory.Cache{Sets: 2, Ways: 3, Cycles: 40}
	c.Read, c.Write = sharp, bloom.Geometry{Bits: sharp.Bits, Hashes: 1, IndexBits: 4}
	c.Buffers = c.Transactions() + 1
	c.Hooks, c.Mutation = h, m
	return c
}

// exact is what a transaction, or the owner of a Locking Buffer, has really read and written.
type exact struct{ reads, writes map[bloom.Line]bool }

func newExact() *exact { return &exact{map[bloom.Line]bool{}, map[bloom.Line]bool{}} }

// meets reports whether an access conflicts with the set.
func (x *exact) meets(line bloom.Line, write bool) bool {
	return x.writes[line] || write && x.reads[line]
}

// follow runs random operations and compares them with exact sets. It gives the first difference.
func follow(t *testing.T, seed uint64, operations int, m directory.Mutation) (wrong string, stats directory.Stats) {
	t.Helper()
	live := map[directory.TX]*exact{}
	held := map[directory.Owner]*exact{}
	on := map[directory.TX]int{}
	evicted := map[directory.TX]bool{}
	d, err := directory.New(small(directory.Hooks{Squashed: func(tx directory.TX, why directory.Reason) {
		delete(live, tx)
		if why == directory.Evicted {
			evicted[tx] = true
		}
	}}, m))
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(seed, 7))
	const lines, remote = 40, directory.Owner(4)
	for n := range operations {
		line, write := bloom.Line(draw.IntN(lines)), draw.IntN(3) == 0
		clear(evicted)
		switch kind := draw.IntN(20); {
		case kind == 0: // a NIC's access
			inTheWay, who := false, remote+directory.Owner(draw.IntN(2))
			for o, x := range held {
				inTheWay = inTheWay || o != who && x.meets(line, false)
			}
			a := d.RemoteRead(who, line)
			if inTheWay != (a.Verdict == directory.Denied) {
				return fmt.Sprintf("operation %d: a NIC's access is %v", n, a.Verdict), d.Stats()
			}
		case kind == 1:
			core := draw.IntN(2)
			tx, ok := d.Begin(core)
			busy := 0
			for other := range live {
				if on[other] == core {
					busy++
				}
			}
			if ok != (busy < 2) {
				return fmt.Sprintf("operation %d: Begin gives %v with %d under way", n, ok, len(live)), d.Stats()
			}
			if ok {
				live[tx], on[tx] = newExact(), core
			}
		case kind == 2: // a remote transaction commits: it locks, and squashes who has what it writes
			if x := held[remote]; x != nil {
				for l := range x.writes {
					d.Push(l)
				}
				d.Buffers().Unlock(remote)
				delete(held, remote)
				continue
			}
			x, read, wrote, writes := newExact(), filter(t, sharp), filter(t, sharp), []bloom.Line{line}
			for range 3 {
				l := bloom.Line(draw.IntN(lines))
				x.reads[l] = true
				read.Insert(l)
			}
			x.writes[line] = true
			wrote.Insert(line)
			conflict := false
			for _, other := range held {
				conflict = conflict || other.meets(line, true)
			}
			verdict := d.Buffers().Lock(remote, read, wrote, writes)
			if conflict != (verdict == directory.Conflict) {
				return fmt.Sprintf("operation %d: a remote lock is %v, conflict: %v", n, verdict, conflict), d.Stats()
			}
			if conflict {
				continue
			}
			held[remote] = x
			for _, tx := range slices.Clone(d.Probe(writes, directory.Nobody)) {
				if !live[tx].meets(line, true) {
					return fmt.Sprintf("operation %d: transaction %d is squashed for line %d", n, tx, line), d.Stats()
				}
				d.Squash(tx, directory.Asked)
			}
			for tx, y := range live {
				if y.meets(line, true) {
					return fmt.Sprintf("operation %d: transaction %d survives, line %d", n, tx, line), d.Stats()
				}
			}
		case len(live) == 0:
		case kind == 3: // one commits: it locks first
			tx := pickTX(draw, live)
			o, x := directory.Owner(tx), live[tx]
			if held[o] != nil {
				d.Commit(tx)
				d.Buffers().Unlock(o)
				delete(live, tx)
				delete(held, o)
				continue
			}
			found, _ := d.Find(tx)
			read, wrote := d.Filters(tx)
			conflict := false
			for _, other := range held {
				for line := range x.writes {
					conflict = conflict || other.meets(line, true)
				}
			}
			verdict := d.Buffers().Lock(o, read, wrote, found)
			if conflict != (verdict == directory.Conflict) {
				return fmt.Sprintf("operation %d: a lock is %v, conflict: %v", n, verdict, conflict), d.Stats()
			}
			if verdict == directory.Granted {
				held[o] = &exact{maps.Clone(x.reads), maps.Clone(x.writes)}
			} else {
				d.Squash(tx, directory.Asked)
			}
		default:
			tx := pickTX(draw, live)
			x, denied, conflict := live[tx], false, false
			for o, other := range held {
				denied = denied || o != directory.Owner(tx) && other.meets(line, write)
			}
			for other, y := range live {
				conflict = conflict || other != tx && y.meets(line, write)
			}
			if held[directory.Owner(tx)] != nil {
				continue // it commits: no more accesses
			}
			a := d.Read
			if write {
				a = d.Write
			}
			got := a(tx, line)
			want := directory.Granted
			switch {
			case evicted[tx]: // the line took the place of one that it had written
				want = directory.Conflict
			case x.writes[line] || !write && x.reads[line]:
				// Its own: no other local one has it. A remote one may have read it before, and commit: if a
				// private cache has the line, no Locking Buffer is asked.
				if denied && got.Verdict == directory.Denied {
					want = directory.Denied
				}
			case denied:
				want = directory.Denied
			case conflict:
				want = directory.Conflict
			}
			if got.Verdict != want {
				return fmt.Sprintf("operation %d: core %d, transaction %d, line %d, write %v: %v, want %v", n, on[tx],
					tx, line, write, got.Verdict, want), d.Stats()
			}
			switch {
			case got.Verdict != directory.Granted:
			case write:
				x.writes[line] = true
			default:
				x.reads[line] = true
			}
		}
		for o := range held { // an eviction has squashed one that commits
			if o != remote && live[directory.TX(o)] == nil {
				d.Buffers().Unlock(o)
				delete(held, o)
			}
		}
		for tx, x := range live {
			found, _ := d.Find(tx)
			slices.Sort(found)
			if want := slices.Sorted(maps.Keys(x.writes)); !slices.Equal(found, want) {
				return fmt.Sprintf("operation %d: lines %v are found of transaction %d, want %v", n, found, tx, want),
					d.Stats()
			}
		}
	}
	return "", d.Stats()
}

func filter(t *testing.T, g bloom.Geometry) *bloom.Filter {
	t.Helper()
	f, err := bloom.New(g)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pickTX(draw *rand.Rand, live map[directory.TX]*exact) directory.TX {
	all := slices.Sorted(maps.Keys(live))
	return all[draw.IntN(len(all))]
}

// TestRandomAccessesMeetEveryConflict: no conflict is missed, whatever is evicted, switched and locked
// meanwhile, and the lines found by filter and tags are those written. The filters are large enough that there are
// no false conflicts, either.
func TestRandomAccessesMeetEveryConflict(t *testing.T) {
	var all directory.Stats
	for seed := range uint64(10) {
		wrong, s := follow(t, seed, 5000, 0)
		if wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		for i, n := range s.Squashes {
			all.Squashes[i] += n
		}
		all.Evictions += s.Evictions
		all.Private += s.Private
		all.FalseConflicts += s.FalseConflicts
	}
	for why := directory.WrittenByAnother; why <= directory.Asked; why++ {
		if all.Squashes[why] == 0 {
			t.Errorf("no transaction was squashed for the reason %q", why)
		}
	}
	if all.Evictions == 0 || all.Private == 0 || all.FalseConflicts != 0 {
		t.Errorf("%+v", all)
	}
}

func TestRandomAccessesFindEachMutation(t *testing.T) {
	for _, m := range directory.Mutations().All() {
		wrong := ""
		for seed := uint64(0); seed < 10 && wrong == ""; seed++ {
			wrong, _ = follow(t, seed, 5000, directory.Mutation(m))
		}
		if wrong == "" {
			t.Errorf("mutation %v is not found", directory.Mutation(m))
		} else {
			t.Logf("%v: %s", directory.Mutation(m), wrong)
		}
	}
}
