package scenario

import (
	"context"
	"os"
	"strconv"
	"testing"

	"drtmd/verbs/scenario"
)

func TestOne(t *testing.T) {
	n, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	s, err := scenario.Find(All(), os.Getenv("SC"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := scenario.Run(context.Background(), s, scenario.Options{Seed: n, Random: true, Mutation: os.Getenv("MUT")})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Counts, r.Failure)
	t.Log(r.Schedule)
	t.Log(r.Outcomes)
}
