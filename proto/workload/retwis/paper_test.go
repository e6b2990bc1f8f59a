package retwis

import (
	"math"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload/workloadtest"
	"drtmd/proto/workload/zipf"
)

func small(t *testing.T) *Retwis {
	t.Helper()
	o := Default(3)
	o.Keys = 3000
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestMixAndAccesses (TAPIR's definition; Xenic §5.4: half of the transactions read only, with 1 to 10
// keys).
func TestMixAndAccesses(t *testing.T) {
	const n = 20_000
	shares := [kindEnd]float64{AddUser: 5, Follow: 15, PostTweet: 30, LoadTimeline: 50}
	gets := [kindEnd]int{AddUser: 1, Follow: 2, PostTweet: 3}
	puts := [kindEnd]int{AddUser: 3, Follow: 2, PostTweet: 5}
	var drawn [kindEnd]float64
	var sizes [MostGets + 1]float64
	err := workloadtest.Check(small(t), 3, n, 1, func(x *workloadtest.Transaction) {
		k := Kind(x.Decl.Kind)
		drawn[k]++
		g, p := 0, 0
		for _, a := range x.Touched {
			if a.Mode == proto.ModeRead {
				g++
			}
		}
		for _, a := range x.Decl.Accesses {
			if a.Mode == proto.ModeWrite {
				p++
			}
		}
		if k == LoadTimeline {
			sizes[g]++
		} else if len(x.Touched) != gets[k]+puts[k] {
			t.Fatalf("%v: %d operations, want %d gets and %d puts", k, len(x.Touched), gets[k], puts[k])
		}
		if p != puts[k] || x.Decl.ReadOnly != (k == LoadTimeline) {
			t.Fatalf("%v: %d puts, read-only %v", k, p, x.Decl.ReadOnly)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := AddUser; k < kindEnd; k++ {
		if got := 100 * drawn[k] / (3 * n); math.Abs(got-shares[k]) > 1 {
			t.Errorf("%v: %.2f %%, want %v", k, got, shares[k])
		}
	}
	for g := 1; g <= MostGets; g++ {
		if got := sizes[g] / drawn[LoadTimeline]; math.Abs(got-0.1) > 0.01 {
			t.Errorf("%.3f of the timelines get %d keys, want 0.1", got, g)
		}
	}
}

// TestSkewAndSizes (Xenic §5.4): 64-byte values, Zipf 0.5.
func TestSkewAndSizes(t *testing.T) {
	w := small(t)
	if s := w.Tables()[0]; s.ValueBytes != 64 {
		t.Errorf("values of %d bytes", s.ValueBytes)
	}
	r := rand.New(rand.NewPCG(1, 1))
	count := map[proto.Key]int{}
	const n = 400_000
	for range n {
		count[w.Draw(r)]++
	}
	most := 0
	for _, c := range count {
		most = max(most, c)
	}
	z, err := zipf.New(uint64(w.Records()), 0.5)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := float64(most)/n, z.Probability(0); math.Abs(got-want) > want/4 {
		t.Errorf("the most popular key has %.5f of the draws, want %.5f", got, want)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"few keys": func(o *Options) { o.Keys = 3 },
		"bytes":    func(o *Options) { o.ValueBytes = 0 },
		"theta":    func(o *Options) { o.Theta = 1 },
	} {
		o := Default(2)
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
