package scenario

import (
	"context"
	"os"
	"strconv"
	"testing"

	"drtmd/verbs/scenario"
)

func TestQuick(t *testing.T) {
	n, _ := strconv.ParseUint(os.Getenv("SEEDS"), 10, 64)
	if n == 0 {
		n = 20
	}
	name := os.Getenv("SC")
	s, err := scenario.Find(All(), name)
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for seed := uint64(1); seed <= n; seed++ {
		r, err := scenario.Run(context.Background(), s, scenario.Options{Seed: seed, Random: true, Mutation: os.Getenv("MUT")})
		if err != nil {
			t.Fatal(err)
		}
		if seed == 1 {
			t.Log(r.Counts, r.Stats.Events, r.Resumes)
		}
		if r.Failure != nil {
			t.Errorf("seed %d: %v\n%v", seed, r.Failure, r.Schedule)
			if bad++; bad > 2 {
				t.FailNow()
			}
		}
	}
}
