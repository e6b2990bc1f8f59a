package history

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var testClock = Clock{Name: "test", ErrorNs: 7}

// record makes a recording of what rapid draws, and gives what must come back.
func record(t *rapid.T, r *Recorder) (want []Record) {
	type active struct {
		txn  *Txn
		ops  []Op
		told int64
	}
	var open []active
	now := rapid.Int64Range(-1e12, 1e12).Draw(t, "start")
	for range rapid.IntRange(0, 40).Draw(t, "steps") {
		now += rapid.Int64Range(0, 1e6).Draw(t, "passed")
		if len(open) == 0 || rapid.Bool().Draw(t, "begin") {
			open = append(open, active{txn: r.Begin(now)})
			continue
		}
		i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
		a := &open[i]
		if rapid.Bool().Draw(t, "operate") {
			a.ops = append(a.ops, operate(t, a.txn))
			continue
		}
		if a.told == 0 && rapid.IntRange(0, 9).Draw(t, "told") == 0 {
			a.told = max(now, 1)
			a.txn.Told(a.told)
			continue
		}
		outcome := Outcome(rapid.IntRange(1, int(OutcomeCount)-1).Draw(t, "outcome"))
		name := rapid.Uint64().Draw(t, "name")
		if outcome.Decision() {
			name = max(name, 1)
		}
		a.txn.SetName(name)
		kind := Kind(rapid.Uint8().Draw(t, "kind"))
		a.txn.SetKind(kind)
		if a.told != 0 {
			outcome = Committed
		}
		w := Record{ID: a.txn.ID(), Node: r.options.Node, Kind: kind, Outcome: outcome, Name: name,
			StartNs: a.txn.record.StartNs, EndNs: now, Ops: a.ops}
		switch {
		case a.told != 0:
			w.EndNs = a.told
		case outcome != Committed && outcome != UserAborted && outcome != Aborted:
			w.EndNs = Never
		}
		want = append(want, w)
		r.End(a.txn, now, outcome)
		open = append(open[:i], open[i+1:]...)
	}
	for _, a := range open { // their coordinator dies; they stand in the order of their begin
		w := Record{ID: a.txn.ID(), Node: r.options.Node, Outcome: Unknown,
			StartNs: a.txn.record.StartNs, EndNs: Never, Ops: a.ops}
		if a.told != 0 { // whose clients know the outcome
			w.Outcome, w.EndNs = Committed, a.told
		}
		want = append(want, w)
	}
	return want
}

func operate(t *rapid.T, x *Txn) Op {
	o := Op{Kind: OpKind(rapid.IntRange(1, int(OpPiece)).Draw(t, "op")),
		Table: Table(rapid.Uint16().Draw(t, "table")), Key: Key(rapid.Uint64().Draw(t, "key"))}
	version := Version(rapid.Uint64Min(1).Draw(t, "version"))
	digest := Digest(rapid.Uint64().Draw(t, "digest"))
	switch o.Kind {
	case OpRead:
		o.Version, o.Digest = version, digest
		x.Read(o.Table, o.Key, version, digest)
	case OpReadAbsent:
		o.Version = version - 1
		x.ReadAbsent(o.Table, o.Key, o.Version)
	case OpWrite:
		o.Version, o.Digest = version, digest
		x.Write(o.Table, o.Key, version, digest)
	case OpDelete:
		o.Version = version
		x.Delete(o.Table, o.Key, version)
	case OpScan:
		o.High = Key(rapid.Uint64Min(uint64(o.Key)).Draw(t, "high"))
		x.Scan(o.Table, o.Key, o.High)
	case OpAdd:
		o.Version, o.Delta, o.Sum = version, rapid.Int64().Draw(t, "delta"), uint64(digest)
		o.Digest = DigestOf(binary.LittleEndian.AppendUint64(nil, o.Sum))
		x.Add(o.Table, o.Key, version, o.Delta, o.Sum)
	case OpPiece:
		count := rapid.IntRange(1, 64).Draw(t, "pieces")
		o.Table, o.Key, o.High = 0, Key(rapid.IntRange(0, count-1).Draw(t, "piece")), Key(count)
		x.Piece(int(o.Key), count)
	}
	return o
}

// diff is cmp.Diff, which is slow, only of what differs.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

func records(t testing.TB, h *History) (got []Record) {
	t.Helper()
	if err := h.Each(func(r *Record) error {
		c := *r
		c.Ops = append([]Op(nil), r.Ops...)
		got = append(got, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// What is recorded comes back, from memory and from a saved file.
func TestRecordingComesBackAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	rapid.Check(t, func(rt *rapid.T) {
		var want []Record
		var segments []*Segment
		for w := range WorkerID(2) {
			r := NewRecorder(Options{Worker: w, Node: NodeID(w), Clock: testClock})
			want = append(want, record(rt, r)...)
			s, err := r.Close()
			if err != nil {
				rt.Fatal(err)
			}
			segments = append(segments, s)
		}
		names := Names{Tables: []string{"accounts"}, Kinds: []string{"", "balance"}}
		h, err := New(names, segments[1], segments[0])
		if err != nil {
			rt.Fatal(err)
		}
		if d := diff(want, records(t, h)); d != "" {
			rt.Fatal("from memory: ", d)
		}
		if err := h.WriteFile(path); err != nil {
			rt.Fatal(err)
		}
		back, err := Open(path)
		if err != nil {
			rt.Fatal(err)
		}
		if d := diff(want, records(t, back)); d != "" {
			rt.Fatal("from the file: ", d)
		}
		if d := diff(h.Nodes(), back.Nodes()); d != "" {
			rt.Fatal(d)
		}
		if d := diff(names, back.Names()); d != "" || back.Txns() != uint64(len(want)) ||
			back.Ops() != h.Ops() {
			rt.Fatal(d, back.Txns(), back.Ops())
		}
		if err := errors.Join(back.Close(), h.Close()); err != nil {
			rt.Fatal(err)
		}
	})
}

// work records n transactions of four operations.
func work(r *Recorder, n int) {
	for i := range n {
		t := r.Begin(int64(i) * 1000)
		k := Key(i % 1000)
		t.SetKind(Kind(i % 6))
		t.Read(1, k, NewVersion(1, uint32(i)+1), Digest(i))
		t.Read(2, k, NewVersion(1, uint32(i)+1), Digest(i))
		t.Write(1, k, NewVersion(1, uint32(i)+2), Digest(i))
		t.Write(2, k, NewVersion(1, uint32(i)+2), Digest(i))
		r.End(t, int64(i)*1000+900, Committed)
	}
}

func TestWhatOutgrowsMemoryGoesToAFileAndComesBackWhole(t *testing.T) {
	const n = 60_000
	spillDir, dir := t.TempDir(), t.TempDir()
	inMemory := NewRecorder(Options{Clock: testClock})
	spilling := NewRecorder(Options{Clock: testClock, MemoryBytes: 1 << 20, SpillDir: spillDir})
	work(inMemory, n)
	work(spilling, n)
	files, err := os.ReadDir(spillDir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d spill files, %v", len(files), err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() < 1<<20 {
		t.Errorf("%v %v", info, err)
	}
	histories := make([]*History, 0, 3)
	for _, r := range []*Recorder{inMemory, spilling} {
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		h, err := New(Names{}, s)
		if err != nil {
			t.Fatal(err)
		}
		histories = append(histories, h)
	}
	path := filepath.Join(dir, "saved")
	if err := histories[1].WriteFile(path); err != nil {
		t.Fatal(err)
	}
	saved, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	histories = append(histories, saved)
	want := records(t, histories[0])
	if len(want) != n {
		t.Fatalf("%d transactions", len(want))
	}
	for _, h := range histories[1:] {
		if d := diff(want, records(t, h)); d != "" {
			t.Error(d)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for range 2 { // closing twice is harmless
		for _, h := range histories {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if files, _ := os.ReadDir(spillDir); len(files) != 0 {
		t.Errorf("spill files left: %v", files)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("not the saved file alone: %v", files)
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
	}{
		{"in memory", Options{}},
		{"into a file", Options{MemoryBytes: 1, SpillDir: t.TempDir()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRecorder(c.options)
			work(r, 10_000)
			if n := testing.AllocsPerRun(10_000, func() { work(r, 1) }); n != 0 {
				t.Errorf("%v allocations per transaction", n)
			}
			s, err := r.Close()
			if err := errors.Join(err, s.Discard(), s.Discard()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRecordingThatMissesSomethingIsNotHandedOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		work    func(*Recorder)
		want    error
	}{
		{"no room", Options{MemoryBytes: 1}, func(r *Recorder) { work(r, 10_000) }, ErrMemoryFull},
		{"no directory", Options{MemoryBytes: 1, SpillDir: "/nonexistent"},
			func(r *Recorder) { work(r, 10_000) }, os.ErrNotExist},
		{"time runs backwards", Options{}, func(r *Recorder) {
			r.End(r.Begin(10), 9, Committed)
		}, ErrClockBackwards},
		{"too many operations", Options{}, func(r *Recorder) {
			x := r.Begin(1)
			for k := range Key(MaxOps + 1) {
				x.ReadAbsent(1, k, 0)
			}
			r.End(x, 2, Committed)
		}, ErrTooManyOps},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRecorder(c.options)
			c.work(r)
			s, err := r.Close()
			if s != nil || !errors.Is(err, c.want) || !errors.Is(r.Err(), c.want) {
				t.Errorf("%v, %v, %v", s, err, r.Err())
			}
		})
	}
}

func TestLongestTransactionIsReadBack(t *testing.T) {
	r := NewRecorder(Options{})
	x := r.Begin(1 << 62)
	for k := range Key(MaxOps) {
		x.Write(0xffff, 1<<63+k, 1<<63+Version(k), Digest(k))
	}
	r.End(x, 1<<62+1, Committed)
	s, err := r.Close()
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(Names{}, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := records(t, h); len(got) != 1 || len(got[0].Ops) != MaxOps {
		t.Errorf("%d transactions", len(got))
	}
}

func TestSegmentsThatDoNotBelongTogetherAreRefused(t *testing.T) {
	segment := func(w WorkerID, n NodeID, c Clock) *Segment {
		s, err := NewRecorder(Options{Worker: w, Node: n, Clock: c}).Close()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name     string
		segments []*Segment
		want     string
	}{
		{"one worker twice", []*Segment{segment(3, 0, testClock), segment(3, 0, testClock)},
			"worker 3 recorded two"},
		{"a node with two clocks", []*Segment{segment(1, 5, testClock),
			segment(2, 5, Clock{Name: "other"})}, "node 5 has clock"},
		{"a negative error", []*Segment{segment(1, 5, Clock{ErrorNs: -1})}, "-1 ns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := New(Names{}, c.segments...)
			if h != nil || !errors.Is(err, ErrMerge) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestErrorsOfTheCallbackComeBackAsTheyAre(t *testing.T) {
	want := errors.New("enough")
	for _, options := range []Options{{}, {MemoryBytes: 1, SpillDir: t.TempDir()}} {
		r := NewRecorder(options)
		work(r, 10_000)
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		h, err := New(Names{}, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Each(func(*Record) error { return want }); got != want {
			t.Errorf("%v", got)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDigestTellsValuesApart(t *testing.T) {
	seen := map[Digest][]byte{}
	add := func(v []byte) {
		d := DigestOf(v)
		if other, ok := seen[d]; ok {
			t.Fatalf("%x and %x share a digest", v, other)
		}
		seen[d] = append([]byte(nil), v...)
	}
	for n := range 40 { // zeros of every length, then every single bit of each
		v := make([]byte, n)
		add(v)
		for bit := range 8 * n {
			v[bit/8] ^= 1 << (bit % 8)
			add(v)
			v[bit/8] ^= 1 << (bit % 8)
		}
	}
	a, b := []byte("aaaaaaaabbbbbbbb"), []byte("bbbbbbbbaaaaaaaa")
	if DigestOf(a) == DigestOf(b) || DigestOf(a) != DigestOf([]byte("aaaaaaaabbbbbbbb")) {
		t.Error("order of words does not count, or equal values differ")
	}
	if n := testing.AllocsPerRun(100, func() { DigestOf(a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := NewRecorder(Options{MemoryBytes: 8 << 20, SpillDir: b.TempDir()})
	b.ReportAllocs()
	for b.Loop() {
		work(r, 1)
	}
	s, err := r.Close()
	if err := errors.Join(err, s.Discard()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkDigestOf64Bytes(b *testing.B) {
	v := make([]byte, 64)
	b.SetBytes(64)
	for b.Loop() {
		DigestOf(v)
	}
}
