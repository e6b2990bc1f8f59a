package zipf

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestParametersAreChecked(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     uint64
		theta float64
		ok    bool
	}{
		{"as YCSB", 1000, 0.99, true}, {"one rank", 1, 0.5, true}, {"no rank", 0, 0.5, false},
		{"uniform", 10, 0, false}, {"theta of one", 10, 1, false}, {"negative", 10, -1, false},
		{"not a number", 10, math.NaN(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := New(c.n, c.theta); (err == nil) != c.ok ||
				err != nil && !errors.Is(err, ErrParameters) {
				t.Error(err)
			}
		})
	}
}

func TestProbabilitiesAddUpToOne(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 1000, 3_000_000} { // beyond what zeta adds term by term
		for _, theta := range []float64{0.1, 0.5, 0.99} {
			z, err := New(n, theta)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i := n; i > 0; i-- {
				sum += z.Probability(i - 1)
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%d ranks, theta %v: sum %v", n, theta, sum)
			}
		}
	}
}

func TestRanksComeOutAsOftenAsTheyShould(t *testing.T) {
	const draws = 1_000_000
	for _, c := range []struct {
		name  string
		n     uint64
		theta float64
	}{{"one", 1, 0.99}, {"two", 2, 0.99}, {"some", 100, 0.5}, {"many", 1_000_000, 0.99}} {
		t.Run(c.name, func(t *testing.T) {
			z, err := New(c.n, c.theta)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			counts := make([]int, c.n)
			for range draws {
				counts[z.Rank(r)]++
			}
			// The cumulative share at each power of two, against the exact one.
			got, want := 0.0, 0.0
			for i := range c.n {
				got += float64(counts[i]) / draws
				want += z.Probability(i)
				if (i+1)&i != 0 {
					continue
				}
				tolerance := 0.02
				if i < 2 { // exact but for 5 sigma
					tolerance = 5 * math.Sqrt(want*(1-want)/draws)
				}
				if math.Abs(got-want) > tolerance+1e-12 {
					t.Errorf("ranks to %d have a share of %.4f, want %.4f", i, got, want)
				}
			}
		})
	}
}

func TestScrambleSpreadsRanksAndDependsOnTheSeed(t *testing.T) {
	const n = 1 << 16
	hits := make([]int, n)
	same := 0
	for rank := range uint64(n) {
		k := Scramble(rank, 1, n)
		if k >= n {
			t.Fatalf("rank %d has key %d", rank, k)
		}
		hits[k]++
		if k == Scramble(rank, 2, n) {
			same++
		}
	}
	empty := 0
	for _, h := range hits {
		if h == 0 {
			empty++
		}
	}
	// Of random keys a share of 1/e is missing.
	if share := float64(empty) / n; math.Abs(share-1/math.E) > 0.01 {
		t.Errorf("a share of %.3f of the keys has no rank", share)
	}
	if same > 10 {
		t.Errorf("%d ranks have the same key for two seeds", same)
	}
}

func TestRankDoesNotAllocate(t *testing.T) {
	z, err := New(1000, 0.99)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	if n := testing.AllocsPerRun(100, func() { z.Rank(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
