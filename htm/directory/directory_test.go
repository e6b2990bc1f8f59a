package directory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

func open(t testing.TB, c directory.Config) *directory.Directory {
	t.Helper()
	d, err := directory.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func begin(t testing.TB, d *directory.Directory, core int) directory.TX {
	t.Helper()
	tx, ok := d.Begin(core)
	if !ok {
		t.Fatal("no pair of filters is free")
	}
	return tx
}

// HADES Table III: round trips of L1, L2, LLC and memory.
func TestAccessesTakeTheCyclesOfTableIII(t *testing.T) {
	d := open(t, directory.Hades(5, 2))
	tx := begin(t, d, 0)
	check := func(what string, got, want directory.Access) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v from %v in %d cycles, want %v, %v, %d", what, got.Verdict, got.Level, got.Cycles,
				want.Verdict, want.Level, want.Cycles)
		}
	}
	memory := directory.Access{Verdict: directory.Granted, Level: directory.InMemory, Cycles: 240}
	llc := directory.Access{Verdict: directory.Granted, Level: directory.InLLC, Cycles: 40}
	l1 := directory.Access{Verdict: directory.Granted, Level: directory.InL1, Cycles: 2}
	l2 := directory.Access{Verdict: directory.Granted, Level: directory.InL2, Cycles: 12}
	check("first read", d.Read(tx, 100), memory)
	check("second read", d.Read(tx, 100), l1)
	check("first write: its bit is not set", d.Write(tx, 100), llc)
	check("second write", d.Write(tx, 100), l1)
	check("first write of another line", d.Write(tx, 200), memory)
	check("read of an own written line", d.Read(tx, 200), l1)
	for i := range bloom.Line(8) { // of the same set of L1, not of L2
		d.Read(tx, 100+128*(2*i+1))
	}
	check("read after its line has left L1", d.Read(tx, 100), l2)
	other := begin(t, d, 0)
	check("read of another transaction of the core", d.Read(other, 300), memory)
	check("write after the switch back", d.Write(tx, 100), llc)
	check("write after that", d.Write(tx, 100), l1)
	d.Commit(other)
	d.Commit(tx)
	third := begin(t, d, 3)
	check("read of what was committed", d.Read(third, 100), llc)
}

// Accesses of software: no tags, no filter bits. Who writes drops the copies of the other cores.
func TestSoftwareTakesTheCyclesOfTableIII(t *testing.T) {
	d := open(t, directory.Hades(2, 2))
	for i, c := range []struct {
		core   int
		line   bloom.Line
		write  bool
		level  directory.Level
		cycles int
	}{
		{0, 100, false, directory.InMemory, 240},
		{0, 100, false, directory.InL1, 2},
		{0, 100, true, directory.InL1, 2}, // no other core has it
		{1, 100, false, directory.InLLC, 40},
		{0, 100, true, directory.InLLC, 40}, // the other one has
		{1, 100, false, directory.InLLC, 40},
		{1, 100, true, directory.InLLC, 40},
		{1, 100, true, directory.InL1, 2},
		{0, 200, true, directory.InMemory, 240},
	} {
		want := directory.Access{Verdict: directory.Granted, Level: c.level, Cycles: c.cycles}
		if got := d.Software(c.core, c.line, c.write); got != want {
			t.Errorf("access %d: %v from %v in %d cycles, want %v in %d", i, got.Verdict, got.Level, got.Cycles, c.level,
				c.cycles)
		}
	}
	if a := d.Reread(100); a.Level != directory.InLLC || a.Cycles != 40 {
		t.Errorf("a read of the directory is served by %v in %d cycles", a.Level, a.Cycles)
	}
	if a := d.Reread(300); a.Level != directory.InMemory || a.Cycles != 240 {
		t.Errorf("a read of an absent line is served by %v in %d cycles", a.Level, a.Cycles)
	}
}

// Each access of one transaction before each of another one, on the same core and on another one: Table II.
func TestTheSecondConflictingAccessSquashesItself(t *testing.T) {
	for _, second := range []int{0, 1} {
		for i, want := range []directory.Verdict{directory.Granted, directory.Conflict, directory.Conflict,
			directory.Conflict} {
			d := open(t, directory.Hades(2, 2))
			one, two := begin(t, d, 0), begin(t, d, second)
			do := func(tx directory.TX, write bool) directory.Verdict {
				if write {
					return d.Write(tx, 5).Verdict
				}
				return d.Read(tx, 5).Verdict
			}
			first, then := i&2 != 0, i&1 != 0
			do(one, first)
			if got := do(two, then); got != want || d.Active(two) != (want == directory.Granted) || !d.Active(one) {
				t.Errorf("core %d, write %v, then write %v: %v, want %v", second, first, then, got, want)
			}
			// Whoever is left goes on, and the line is everyone's after its end.
			if got := do(one, true); d.Active(two) == (got == directory.Granted) {
				t.Errorf("the first one's write is %v", got)
			}
			if d.Active(one) {
				d.Commit(one)
			}
			if got := d.Write(begin(t, d, 1), 5).Verdict; got != directory.Granted && !d.Active(two) {
				t.Errorf("a write after all have ended is %v", got)
			}
		}
	}
}

// §VIII-C: lines without a tag leave first; of a set of written lines the oldest one leaves, and its writer is
// squashed. A line that was only read squashes nobody.
func TestAnEvictedWrittenLineSquashesItsWriter(t *testing.T) {
	var squashed []string
	c := directory.Hades(1, 4)
	c.Hooks.Squashed = func(tx directory.TX, why directory.Reason) {
		squashed = append(squashed, fmt.Sprint(tx, " ", why))
	}
	d := open(t, c)
	writer, reader := begin(t, d, 0), begin(t, d, 0)
	line := func(i int) bloom.Line { return bloom.Line(4096 * i) } // all of one set of 16 ways
	d.Read(reader, line(0))
	for i := 1; i <= 15; i++ {
		d.Write(writer, line(i))
	}
	d.Read(reader, line(16)) // in the place of the line that was read
	if len(squashed) != 0 || !d.Active(reader) || !d.Active(writer) {
		t.Fatalf("squashed: %q", squashed)
	}
	if d.Write(begin(t, d, 0), line(0)).Verdict != directory.Conflict {
		t.Error("the read filter has lost a line with its eviction")
	}
	last := begin(t, d, 0)
	d.Write(last, line(17)) // in the place of line 16: now all 16 are written
	if got := d.Read(reader, line(18)); got.Verdict != directory.Granted || d.Active(writer) || !d.Active(last) {
		t.Errorf("the read is %v; writer %v, last %v", got, d.Active(writer), d.Active(last))
	}
	want := []string{"2 read by another", "0 evicted"}
	if !slices.Equal(squashed, want) || d.Stats().Squashes[directory.Evicted] != 1 {
		t.Errorf("squashed %q, want %q", squashed, want)
	}
	// A transaction that fills a set alone squashes itself.
	alone := begin(t, d, 0)
	for i := range 16 {
		d.Write(alone, line(100+i)+1)
	}
	if got := d.Write(alone, line(200)+1).Verdict; got != directory.Conflict || d.Active(alone) {
		t.Errorf("the seventeenth write to a set is %v", got)
	}
}

// Figure 7: what a Locking Buffer of one owner denies another one, and what it does to another's commit.
func TestLockingBuffersDenyWhatConflicts(t *testing.T) {
	read, write := filters(t)
	read.Insert(1)
	write.Insert(2)
	for _, c := range []struct {
		line         bloom.Line
		reads, wrote bool // denied
	}{{1, false, true}, {2, true, true}, {3, false, false}} {
		b, err := directory.NewBuffers(2, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if v := b.Lock(8, read, write, []bloom.Line{2}); v != directory.Granted {
			t.Fatal(v)
		}
		if b.Denies(9, c.line, false) != c.reads || b.Denies(9, c.line, true) != c.wrote {
			t.Errorf("line %d: accesses are denied: %v, %v", c.line, b.Denies(9, c.line, false),
				b.Denies(9, c.line, true))
		}
		if b.Denies(8, c.line, false) || b.Denies(8, c.line, true) {
			t.Errorf("line %d: the committer's own access is denied", c.line)
		}
		r, w := filters(t)
		w.Insert(c.line)
		want := directory.Granted
		if c.wrote {
			want = directory.Conflict
		}
		if v := b.Lock(9, r, w, []bloom.Line{c.line}); v != want {
			t.Errorf("line %d: a commit that writes it is %v, want %v", c.line, v, want)
		}
		// What a later commit has only read is not compared (§V-B).
		b.Unlock(9)
		r.Insert(2)
		if v := b.Lock(9, r, w, nil); v != directory.Granted {
			t.Errorf("a commit without writes is %v", v)
		}
		b.Unlock(8)
		b.Unlock(9)
		if b.Held() != 0 || b.Denies(7, c.line, true) {
			t.Error("a buffer that was given back denies an access")
		}
	}
}

func filters(t *testing.T) (read, write *bloom.Filter) {
	return filter(t, bloom.Plain()), filter(t, bloom.Plain())
}

// An atomic read of several lines keeps writers away, waits for one that commits, and makes a commit wait
// instead of squashing it.
func TestAnAtomicReadKeepsWritersAway(t *testing.T) {
	unlocked := 0
	b, err := directory.NewBuffers(3, func() { unlocked++ }, 0)
	if err != nil {
		t.Fatal(err)
	}
	read, write := filters(t)
	write.Insert(2)
	if v := b.LockReads(1, []bloom.Line{1, 2}); v != directory.Granted {
		t.Fatal(v)
	}
	if !b.Denies(9, 2, true) || b.Denies(9, 2, false) || b.Denies(1, 2, true) {
		t.Error("an atomic read denies the wrong accesses")
	}
	if v := b.Lock(9, read, write, []bloom.Line{2}); v != directory.Denied {
		t.Errorf("the commit is %v, want denied", v)
	}
	b.Unlock(1)
	if v := b.Lock(9, read, write, []bloom.Line{2}); v != directory.Granted || unlocked != 1 {
		t.Errorf("after the read the commit is %v; %d buffers were given back", v, unlocked)
	}
	if v := b.LockReads(1, []bloom.Line{1, 2}); v != directory.Denied || b.Holds(1) {
		t.Errorf("an atomic read of a line that a commit writes is %v", v)
	}
	b.Unlock(1) // of nobody: nothing happens
	if unlocked != 1 || b.Held() != 1 {
		t.Errorf("%d unlocked, %d held", unlocked, b.Held())
	}
}

// What is reserved waits for commits with which its reads or its writes conflict, and nobody finds it locked later.
func TestReservationsCompareReadsToo(t *testing.T) {
	b, err := directory.NewBuffers(3, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	read, write := filters(t)
	write.Insert(2)
	if v := b.Lock(1, read, write, []bloom.Line{2}); v != directory.Granted {
		t.Fatal(v)
	}
	r, w := filters(t)
	r.Insert(2)
	w.Insert(3)
	if v := b.Reserve(2, r, w, []bloom.Line{2}, []bloom.Line{3}); v != directory.Denied || b.Holds(2) {
		t.Errorf("a reservation of a read of what a commit writes is %v", v)
	}
	if b.Reserved(9, []bloom.Line{2}, false) {
		t.Error("a commit is taken for a reservation")
	}
	b.Unlock(1)
	if v := b.Reserve(2, r, w, []bloom.Line{2}, []bloom.Line{3}); v != directory.Granted {
		t.Errorf("after the commit it is %v", v)
	}
	if !b.Reserved(9, []bloom.Line{3}, false) || b.Reserved(9, []bloom.Line{2}, false) || b.Reserved(2, []bloom.Line{3}, false) {
		t.Error("only lines that are reserved to be written, by another owner, count")
	}
	b.Unlock(2)
	if b.Reserved(9, []bloom.Line{3}, false) {
		t.Error("a reservation outlives its lock")
	}
}

func TestTheBuffersAreBounded(t *testing.T) {
	b, err := directory.NewBuffers(1, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	read, write := filters(t)
	b.Lock(1, read, write, nil)
	if v := b.Lock(2, read, write, nil); v != directory.Conflict || b.Stats().Exhausted != 1 {
		t.Errorf("a commit without a free buffer is %v, %+v", v, b.Stats())
	}
	if v := b.LockReads(3, []bloom.Line{5}); v != directory.Denied {
		t.Errorf("an atomic read without a free buffer is %v", v)
	}
}

// §VI: a pair of filters for each transaction of a core; who finds none waits for the end of another one of that core.
func TestTransactionsAreBoundedByPairsOfFilters(t *testing.T) {
	d := open(t, directory.Hades(2, 2))
	begin(t, d, 1)
	one := begin(t, d, 0)
	begin(t, d, 0)
	if _, ok := d.Begin(0); ok {
		t.Fatal("a third transaction has filters")
	}
	d.Squash(one, directory.Asked)
	if tx := begin(t, d, 0); tx != one {
		t.Errorf("the free pair is %d, want %d", tx, one)
	}
}

// Figure 8, Table III: 80 to 120 cycles.
func TestFindTakes80To120Cycles(t *testing.T) {
	d := open(t, directory.Hades(5, 2))
	tx := begin(t, d, 0)
	for i, want := range []int{80, 88, 96, 104, 112, 120, 120, 120} {
		if found, cycles := d.Find(tx); cycles != want || len(found) != i {
			t.Errorf("%d lines of %d in %d cycles, want %d", len(found), i, cycles, want)
		}
		d.Write(tx, bloom.Line(i*7919))
	}
	if cycles := d.Commit(tx); cycles != 120 || d.Active(tx) {
		t.Errorf("the commit takes %d cycles", cycles)
	}
}

// Memory has the committed value of a line before a transaction writes it, so that a NIC can read it.
func TestADirtyLineIsWrittenBackBeforeItIsSpeculative(t *testing.T) {
	d := open(t, directory.Hades(1, 2))
	tx := begin(t, d, 0)
	d.Write(tx, 1)
	d.Commit(tx)
	if a := d.RemoteRead(50, 1); a.Level != directory.InLLC {
		t.Errorf("a committed line is read from %v", a.Level)
	}
	tx = begin(t, d, 0)
	d.Write(tx, 1)
	d.Write(tx, 1)
	if a := d.RemoteRead(50, 1); a.Level != directory.InMemory || d.Stats().WriteBacks != 1 {
		t.Errorf("a speculative line is read from %v after %d write-backs", a.Level, d.Stats().WriteBacks)
	}
}

// Whoever has read or written a line is found by a remote commit (Table II, step 2 at y).
func TestProbeFindsReadersAndWriters(t *testing.T) {
	d := open(t, directory.Hades(2, 2))
	reader, writer, neither := begin(t, d, 0), begin(t, d, 1), begin(t, d, 0)
	d.Read(reader, 1)
	d.Write(writer, 2)
	d.Read(neither, 3)
	for _, c := range []struct {
		lines  []bloom.Line
		except directory.TX
		want   []directory.TX
	}{
		{[]bloom.Line{1, 2}, directory.Nobody, []directory.TX{reader, writer}},
		{[]bloom.Line{9, 2}, directory.Nobody, []directory.TX{writer}},
		{[]bloom.Line{1, 2}, writer, []directory.TX{reader}},
		{[]bloom.Line{9}, directory.Nobody, nil},
	} {
		if got := d.Probe(c.lines, c.except); !slices.Equal(got, c.want) {
			t.Errorf("%v without %d: %v, want %v", c.lines, c.except, got, c.want)
		}
	}
}

func TestImpossibleDirectoriesAreRefusedInWords(t *testing.T) {
	for _, c := range []struct {
		change func(*directory.Config)
		want   string
	}{
		{func(c *directory.Config) { c.Cores = 0 }, "0 cores with 2 transactions"},
		{func(c *directory.Config) { c.PerCore = 0 }, "5 cores with 0 transactions"},
		{func(c *directory.Config) { c.TagBits = 3 }, "10 transactions and tags of 3 bits; 4 bits name them all"},
		{func(c *directory.Config) { c.L1.Sets = 100 }, "L1 has 100 sets"},
		{func(c *directory.Config) { c.L2.Ways = 0 }, "L2 has 1024 sets of 0 ways"},
		{func(c *directory.Config) { c.LLC.Sets = 0 }, "LLC has 0 sets"},
		{func(c *directory.Config) { c.Read.Bits = 0 }, "read filter: impossible Bloom filter: it has 0 bits"},
		{func(c *directory.Config) { c.Write.Bits = 500 }, "write filter: impossible Bloom filter: 500 bits are no"},
		{func(c *directory.Config) { c.Write.IndexBits = 0 }, "no bits by cache set"},
		{func(c *directory.Config) { c.Buffers = -1 }, "-1 Locking Buffers"},
		{func(c *directory.Config) { c.Memory = -1 }, "memory takes -1 cycles"},
		{func(c *directory.Config) { c.Find.Most = 10 }, "Most is the longest"},
	} {
		config := directory.Hades(5, 2)
		c.change(&config)
		d, err := directory.New(config)
		if d != nil || !errors.Is(err, directory.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := directory.NewBuffers(0, nil, 0); !errors.Is(err, directory.ErrConfig) {
		t.Error(err)
	}
}

// §VI: tags of ceil(log2(mC)) bits: 4 for 10 transactions, 5 for 32.
func TestTagsHaveThePapersBits(t *testing.T) {
	for n, want := range map[int]int{1: 0, 2: 1, 10: 4, 32: 5, 33: 6, 50: 6} {
		if got := directory.Tag(n); got != want {
			t.Errorf("%d transactions: %d bits, want %d", n, got, want)
		}
	}
}

func TestATransactionAllocatesNothing(t *testing.T) {
	d := open(t, directory.Hades(5, 2))
	line := bloom.Line(0)
	once := func() {
		tx := begin(t, d, 0)
		for range 20 {
			line += 997
			d.Read(tx, line)
			d.Write(tx, line)
			d.RemoteRead(50, line)
		}
		found, _ := d.Find(tx)
		read, write := d.Filters(tx)
		d.Buffers().Lock(directory.Owner(tx), read, write, found)
		d.Probe(found, tx)
		d.Commit(tx)
		d.Buffers().Unlock(directory.Owner(tx))
	}
	for range 20 {
		once()
	}
	if n := testing.AllocsPerRun(20, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTransaction is one of ten reads and five writes, on a node of five cores with nine others under way.
func BenchmarkTransaction(b *testing.B) {
	d := open(b, directory.Hades(5, 2))
	for i := range 9 {
		tx := begin(b, d, i%5)
		for l := range bloom.Line(10) {
			d.Read(tx, bloom.Line(i)<<20+l)
		}
	}
	line := bloom.Line(1 << 25)
	b.ReportAllocs()
	for b.Loop() {
		tx := begin(b, d, 4)
		for i := 0; i < 10 && d.Active(tx); i++ { // a filter may squash it by mistake
			line += 997
			if d.Read(tx, line); i%2 == 0 {
				d.Write(tx, line)
			}
		}
		if !d.Active(tx) {
			continue
		}
		found, _ := d.Find(tx)
		read, write := d.Filters(tx)
		d.Buffers().Lock(directory.Owner(tx), read, write, found)
		d.Commit(tx)
		d.Buffers().Unlock(directory.Owner(tx))
	}
}
