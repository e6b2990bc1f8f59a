package ycsb

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload/keyvalue"
	"drtmd/proto/workload/workloadtest"
	"drtmd/proto/workload/zipf"
)

func options(letter string) Options {
	o := Default(3)
	o.Letter, o.Keys, o.ValueBytes = letter, 2000, 100
	return o
}

// TestMixOfEachWorkload (SoCC 2010, Table 2): shares of reads and of the other operation.
func TestMixOfEachWorkload(t *testing.T) {
	for letter, want := range map[string]struct {
		reads float64
		other proto.Mode
	}{"A": {50, proto.ModeWrite}, "B": {95, proto.ModeWrite}, "C": {100, proto.ModeWrite},
		"D": {95, proto.ModeInsert}, "F": {50, proto.ModeWrite}} {
		for _, operations := range []int{1, 5} {
			o := options(letter)
			o.Operations = operations
			w, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			reads, all := 0.0, 0.0
			err = workloadtest.Check(w, 3, 6000, 1, func(x *workloadtest.Transaction) {
				if n := len(x.Decl.Accesses); n != operations {
					t.Fatalf("%s: %d operations, want %d", letter, n, operations)
				}
				for _, a := range x.Decl.Accesses {
					all++
					switch a.Mode {
					case proto.ModeRead:
						reads++
					case want.other:
					default:
						t.Fatalf("%s: %v", letter, a.Mode)
					}
				}
				if x.Decl.ReadOnly != (x.Decl.Kind == kindRead) {
					t.Fatalf("%s: kind %d is read-only: %v", letter, x.Decl.Kind, x.Decl.ReadOnly)
				}
			})
			if err != nil {
				t.Fatalf("%s, %d operations: %v", letter, operations, err)
			}
			if got := 100 * reads / all; math.Abs(got-want.reads) > 1 {
				t.Errorf("%s, %d operations: %.2f %% reads, want %v", letter, operations, got, want.reads)
			}
		}
	}
}

// TestMixOfScans is E (SoCC 2010, Table 2): 95 % scans, of lengths that are drawn uniformly from 1 to 100.
func TestMixOfScans(t *testing.T) {
	o := options("E")
	o.Keys = 300
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if !w.Tables()[0].Ordered {
		t.Error("the table has no order")
	}
	scans, all, records, longest := 0.0, 0.0, 0.0, 0
	err = workloadtest.Check(w, 3, 2000, 1, func(x *workloadtest.Transaction) {
		all++
		if x.Decl.Kind != kindRead {
			if len(x.Touched) != 1 || x.Touched[0].Mode != proto.ModeInsert {
				t.Fatalf("an insertion touches %v", x.Touched)
			}
			return
		}
		scans++
		records += float64(len(x.Touched))
		longest = max(longest, len(x.Touched))
	})
	if err != nil {
		t.Fatal(err)
	}
	// Scans that begin near the end of a node's records are shorter.
	if share, mean := 100*scans/all, records/scans; math.Abs(share-95) > 1 || longest != 100 || mean < 40 || mean > 51 {
		t.Errorf("%.1f %% scans, of %.1f records in the mean and %d at most", share, mean, longest)
	}
}

// TestInsertedRecordsAreChecked: after a run of D and of E, one that is lost, has another value or belongs to
// another node is noticed.
func TestInsertedRecordsAreChecked(t *testing.T) {
	for _, letter := range []string{"D", "E"} {
		for name, damage := range map[string]func(s *workloadtest.Store, at workloadtest.Place){
			"nothing": func(*workloadtest.Store, workloadtest.Place) {},
			"lost":    func(s *workloadtest.Store, at workloadtest.Place) { delete(s.Records, at) },
			"changed": func(s *workloadtest.Store, at workloadtest.Place) { s.Records[at][99]++ },
			"put":     func(s *workloadtest.Store, at workloadtest.Place) { keyvalue.Set(s.Records[at], at.Key, 1) },
		} {
			o := options(letter)
			o.Keys, o.ScanLength = 100, 5
			w, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			s, err := workloadtest.Load(w, 3)
			if err != nil {
				t.Fatal(err)
			}
			did, err := s.Run(w.NewClient(1, rand.New(rand.NewPCG(1, 2))), 1000, nil)
			if err != nil {
				t.Fatal(err)
			}
			// The first record that the client has inserted.
			damage(s, workloadtest.Place{Table: keyvalue.Table, Key: w.numbered(1, uint64(o.Keys))})
			first, last, err := s.Count(3)
			if err == nil {
				err = did.Explains(first, last, w.Sums()...)
			}
			if good := name == "nothing"; good != (err == nil) || did.Committed[0] == 0 {
				t.Errorf("%s, %s: %v, %d inserted", letter, name, err, did.Committed[0])
			}
		}
	}
}

// TestReadModifyWriteReadsFirst: F reads what it puts; A does not.
func TestReadModifyWriteReadsFirst(t *testing.T) {
	for letter, touches := range map[string]int{"A": 1, "F": 2} {
		w, err := New(options(letter))
		if err != nil {
			t.Fatal(err)
		}
		err = workloadtest.Check(w, 3, 500, 1, func(x *workloadtest.Transaction) {
			if x.Decl.Kind == kindOther && len(x.Touched) != touches {
				t.Errorf("%s: %v", letter, x.Touched)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestPopularityIsZipfs: the most popular record's share is that of rank 0 with theta 0.99, and popular
// records are spread over the nodes; uniformly drawn ones are all alike.
func TestPopularityIsZipfs(t *testing.T) {
	const n = 200_000
	for _, d := range []Distribution{Zipfian, Uniform} {
		o := options("C")
		o.Distribution = d
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		count := map[proto.Key]int{}
		homes := [3]int{}
		for range n {
			k := w.Draw(r)
			count[k]++
			homes[w.Placement().Locate(1, k).Primary]++
		}
		most := 0
		for _, c := range count {
			most = max(most, c)
		}
		want := 1.0 / float64(w.Records())
		if d == Zipfian {
			z, err := zipf.New(uint64(w.Records()), 0.99)
			if err != nil {
				t.Fatal(err)
			}
			want = z.Probability(0)
		}
		if got := float64(most) / n; d == Zipfian && math.Abs(got-want) > 0.01 || d == Uniform && got > 4*want {
			t.Errorf("%v: the most popular record got %.4f of the draws, want %.4f", d, got, want)
		}
		for i, h := range homes {
			if float64(h) < 0.15*n {
				t.Errorf("%v: node %d got %d of %d", d, i, h, n)
			}
		}
	}
}

// TestLatestReadsWhatWasInsertedLast: after insertions the newest records are read most.
func TestLatestReadsWhatWasInsertedLast(t *testing.T) {
	w, err := New(options("D"))
	if err != nil {
		t.Fatal(err)
	}
	c := w.NewClient(0, rand.New(rand.NewPCG(1, 1))).(*client)
	for range 100 {
		c.insertion()
	}
	newest, n := 0, 20_000
	for range n {
		k := c.latest()
		if w.Placement().Locate(1, k).Primary == 0 && k&0xffffffff >= proto.Key(w.Keys) {
			newest++
		}
	}
	z, err := zipf.New(uint64(w.Records()), 0.99)
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for rank := uint64(0); rank < 300; rank += 3 { // node 0 has every third rank
		want += z.Probability(rank)
	}
	if got := float64(newest) / float64(n); math.Abs(got-want) > 0.03 {
		t.Errorf("%.3f of the reads are of inserted records, want %.3f", got, want)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"letter":     func(o *Options) { o.Letter = "G" },
		"operations": func(o *Options) { o.Operations = 0 },
		"too many":   func(o *Options) { o.Operations = keyvalue.MaxOps + 1 },
		"reads":      func(o *Options) { o.Reads = 101 },
		"keys":       func(o *Options) { o.Keys = 0 },
		"bytes":      func(o *Options) { o.ValueBytes = 4 },
		"theta":      func(o *Options) { o.Theta = 0 },
		"scans":      func(o *Options) { o.Letter, o.ScanLength = "E", 0 },
		"long scans": func(o *Options) { o.Letter, o.ScanLength, o.Operations = "E", 501, 2 },
		"nodes":      func(o *Options) { o.Nodes = 0 },
		"few keys":   func(o *Options) { o.Keys, o.Operations = 1, 5 },
	} {
		o := options("A")
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseDistribution("pareto"); !errors.Is(err, ErrDistribution) {
		t.Error(err)
	}
}

func TestDrawingDoesNotAllocate(t *testing.T) {
	for _, letter := range []string{"A", "D", "E", "F"} {
		o := options(letter)
		o.Operations = 5
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		c := w.NewClient(1, rand.New(rand.NewPCG(1, 1)))
		if n := testing.AllocsPerRun(1000, func() {
			c.Next()
			c.Done(proto.RolledBack)
		}); n > 0 {
			t.Errorf("%s: %v allocations per transaction", letter, n)
		}
	}
}
