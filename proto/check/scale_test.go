package check

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/internal/invariant"
	"drtmd/proto/history"
)

// bank is a run that looks like SmallBank's: accounts with a checking and a savings balance, 90 %
// of accesses to 4 % of them, six types of transactions. It executes one transaction after the
// other; each lasts from before to after its turn, so that many overlap.
type bank struct {
	rand      *rand.Rand
	versions  [2][]history.Version
	recorders []*history.Recorder
	now       int64
	lost      bool // the next update is of a version that is not the newest
}

const (
	bankAccounts = 1_000_000
	bankWorkers  = 6
	bankFibers   = 16
)

func newBank(tb testing.TB) *bank {
	b := &bank{rand: rand.New(rand.NewPCG(1, 2))}
	for i := range b.versions {
		b.versions[i] = make([]history.Version, bankAccounts)
		for a := range b.versions[i] {
			b.versions[i][a] = history.NewVersion(1, 1)
		}
	}
	dir := tb.TempDir()
	for w := range history.WorkerID(bankWorkers) {
		b.recorders = append(b.recorders, history.NewRecorder(history.Options{Worker: w,
			Node: history.NodeID(w / 2), Clock: history.Clock{Name: "mono", ErrorNs: 100, ResolutionNs: 100},
			MemoryBytes: 1 << 20, SpillDir: dir}))
	}
	return b
}

func (b *bank) account() history.Key {
	if b.rand.IntN(10) > 0 {
		return history.Key(b.rand.IntN(bankAccounts / 25))
	}
	return history.Key(b.rand.IntN(bankAccounts))
}

// steps is what the types do: for each account, the tables that are read and those written.
var steps = [6][]struct{ read, write [2]bool }{
	{{read: [2]bool{true, true}}},                                                // balance
	{{read: [2]bool{true}, write: [2]bool{true}}},                                // deposit
	{{read: [2]bool{false, true}, write: [2]bool{false, true}}},                  // transact
	{{read: [2]bool{true, true}, write: [2]bool{true}}},                          // check
	{{[2]bool{true}, [2]bool{true}}, {[2]bool{true}, [2]bool{true}}},             // send
	{{[2]bool{true, true}, [2]bool{true, true}}, {[2]bool{true}, [2]bool{true}}}, // amalgamate
}

func (b *bank) digest(table int, a history.Key, v history.Version) history.Digest {
	return history.Digest(uint64(a)<<33 ^ uint64(v)<<1 ^ uint64(table))
}

// run executes n transactions.
func (b *bank) run(n int) {
	for range n {
		b.now += 300
		r := b.recorders[b.rand.IntN(bankWorkers)]
		length := 300 * bankWorkers * b.rand.Int64N(bankFibers)
		kind := b.rand.IntN(len(steps))
		t := r.Begin(b.now - length)
		t.SetKind(history.Kind(kind))
		for _, s := range steps[kind] {
			a := b.account()
			for table := range b.versions {
				v := b.versions[table][a]
				if b.lost && s.write[table] && v > history.NewVersion(1, 2) {
					b.lost, v = false, v-1
				}
				if s.read[table] {
					t.Read(history.Table(table), a, v, b.digest(table, a, v))
				}
				if s.write[table] {
					v = b.versions[table][a] + 1
					b.versions[table][a] = v
					t.Write(history.Table(table), a, v, b.digest(table, a, v))
				}
			}
		}
		r.End(t, b.now+length, history.Committed)
	}
}

// holds is what the tables hold before and after the run.
func (b *bank) holds(m history.Moment) *history.Snapshot {
	s := history.NewSnapshot(0, m)
	for table := range b.versions {
		for a, v := range b.versions[table] {
			if m == history.Initial {
				v = history.NewVersion(1, 1)
			}
			s.Put(history.Content{Table: history.Table(table), Key: history.Key(a),
				State: history.Present, Version: v, Digest: b.digest(table, history.Key(a), v)})
		}
	}
	return s
}

func (b *bank) history(tb testing.TB) *history.History {
	tb.Helper()
	var segments []*history.Segment
	for _, r := range b.recorders {
		s, err := r.Close()
		if err != nil {
			tb.Fatal(err)
		}
		segments = append(segments, s)
	}
	h, err := history.NewRun(history.Run{
		Names: history.Names{Tables: []string{"checking", "savings"}}, Versions: history.Counting,
		Initial: []*history.Snapshot{b.holds(history.Initial)},
		Final:   []*history.Snapshot{b.holds(history.Final)}}, segments...)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// A million transactions, spilled to files by their recorders, are checked whole; one bad update
// among them is found.
func TestMillionTransactionsAreCheckedWhole(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		want Verdict
	}{{"good", 1_000_000, Serializable}, {"one lost update", 300_000, Violated}} {
		t.Run(c.name, func(t *testing.T) {
			n := c.n
			if invariant.Enabled { // the race detector slows this down, and has nothing to find
				n /= 20
			}
			b := newBank(t)
			b.run(n / 2)
			b.lost = c.want == Violated
			b.run(n / 2)
			h := b.history(t)
			r := check(t, h, Options{})
			if r.Verdict != c.want || r.Checked != uint64(n) || r.Committed != uint64(n) || r.Keys == 0 {
				t.Fatalf("%+v", r)
			}
			if c.want == Violated && r.Violations[0].Anomaly != LostUpdate {
				t.Errorf("%+v", r.Violations)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// peakBytes is the most memory that the process has had.
func peakBytes() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, _ := strconv.ParseFloat(strings.Fields(after + " 0")[0], 64)
	return kib * 1024
}

// cpuSeconds is the CPU time of the process: what counts on a machine with other load.
func cpuSeconds(tb testing.TB) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func benchmark(b *testing.B, n int, lost bool) {
	bank := newBank(b)
	bank.run(n / 2)
	bank.lost = lost
	bank.run(n - n/2)
	h := bank.history(b)
	path := filepath.Join(b.TempDir(), "history")
	if err := h.WriteFile(path); err != nil {
		b.Fatal(err)
	}
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	saved, err := history.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	want := Serializable
	if lost {
		want = Violated
	}
	var r *Result
	used := cpuSeconds(b)
	for b.Loop() {
		if r, err = History(b.Context(), saved, Options{}); err != nil || r.Verdict != want {
			b.Fatalf("%v %+v", err, r)
		}
	}
	b.ReportMetric((cpuSeconds(b)-used)/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtxn/s")
	b.ReportMetric(float64(r.Operations)/float64(n), "ops/txn")
	b.ReportMetric(float64(info.Size())/float64(n), "file-B/txn")
	b.ReportMetric(peakBytes()/(1<<30), "peak-GiB")
	b.ReportMetric(float64(Need(saved))/(1<<30), "need-GiB")
	if err := saved.Close(); err != nil {
		b.Error(err)
	}
}

func BenchmarkCheck1M(b *testing.B)           { benchmark(b, 1_000_000, false) }
func BenchmarkCheck10M(b *testing.B)          { benchmark(b, 10_000_000, false) }
func BenchmarkCheck10MViolation(b *testing.B) { benchmark(b, 10_000_000, true) }
