package check

import (
	"strings"
	"testing"
)

// Histories of runs in which coordinators died and survivors decided; each with one that differs in the
// fault only.
func TestDecisionsAndReplicasAreChecked(t *testing.T) {
	for _, c := range []struct {
		name             string
		broken, repaired string
		want             Anomaly
		says             string
	}{
		{"what the client was told is revoked", `
			load x 1
			0-10 w x 2; committed #7
			20-30 w x 2; revoked #7
			final x 2`, `
			load x 1
			0-10 w x 2; committed #7
			20-30 w x 2; recovered #7
			final x 2`, BrokenPromise, "the coordinator of 0.1 told that it was committed, and the survivors' 1.1 " +
			"that it was revoked"},
		{"what the client was told by a coordinator that died is revoked", `
			load x 1
			0-10 w x 2; told #7
			20-30 w x 2; revoked #7
			final x 2`, `
			load x 1
			0-10 w x 2; told #7
			20-30 w x 2; recovered #7
			final x 2`, BrokenPromise, ""},
		{"what was aborted is committed by survivors", `
			load x 1
			0-10 r x 1; aborted #7
			20-30 w x 2; recovered #7
			final x 1`, `
			load x 1
			0-10 r x 1; aborted #7
			20-30 w x 2; revoked #7
			final x 1`, BrokenPromise, "told that it was aborted"},
		{"two survivors decide differently", `
			load x 1
			0-10 w x 2; unknown #7
			20-30 w x 2; recovered #7
			20-30 w x 2; revoked #7
			final x 2`, `
			load x 1
			0-10 w x 2; unknown #7
			20-30 w x 2; recovered #7
			20-30 w x 2; recovered #7
			final x 2`, BrokenPromise, "1.1 says it was recovered, and 2.1 that it was revoked"},
		{"a revoked write is read", `
			load x 1
			0-10 w x 2; unknown #7
			20-30 w x 2; revoked #7
			40-50 r x 2`, `
			load x 1
			0-10 w x 2; unknown #7
			20-30 w x 2; recovered #7
			40-50 r x 2`, AbortedRead, ""},
		{"a recovered write is not there in the end", `
			load x 1
			0-10 w x 2; unknown #7
			20-30 w x 2; recovered #7
			final x 1`, `
			load x 1
			0-10 w x 2; unknown #7
			20-30 w x 2; recovered #7
			final x 2`, LostWrite, ""},
		{"a told write is not there in the end", `
			load x 1
			0-10 w x 2; told
			final x 1`, `
			load x 1
			0-10 w x 2; told
			final x 2`, LostWrite, ""},
		{"a told write is not read by whoever starts later", `
			load x 1
			0-10 w x 2; told
			20-30 r x 1`, `
			load x 1
			0-10 w x 2; told
			5-30 r x 1`, StaleRead, ""},
		{"a write of which only survivors know is lost", `
			load x 1
			20-30 w x 2; recovered #7
			final x 1`, `
			load x 1
			20-30 w x 2; recovered #7
			final x 2`, LostWrite, ""},
		{"a write of which one survivor knows, and another has heard, is lost", `
			load x 1, y 1
			20-30 w x 2; recovered #7
			20-30 w x 2, w y 2; recovered #7
			final x 2, y 1`, `
			load x 1, y 1
			20-30 w x 2; recovered #7
			20-30 w x 2, w y 2; recovered #7
			final x 2, y 2`, LostWrite, ""},
		{"a write of which only survivors know was revoked", `
			load x 1
			20-30 w x 2; revoked #7
			final x 2`, `
			load x 1
			20-30 w x 2; recovered #7
			final x 2`, WrongContent, ""},
		{"a recovered transaction saw a view that never was", `
			load x 1, y 1
			0-10 w x 2, w y 2
			5-30 r x 1, r y 2, w z 5; unknown #7
			40-50 w z 5; recovered #7`, `
			load x 1, y 1
			0-10 w x 2, w y 2
			5-30 r x 1, r y 2, w z 5; unknown #7
			40-50 w z 5; revoked #7`, FracturedRead, ""},
		{"a replica has an older version", `
			load x 1
			0-10 w x 2
			replica 0@0 x 2
			replica 0@1 x 1`, `
			load x 1
			0-10 w x 2
			replica 0@0 x 2
			replica 0@1 x 2`, ReplicasDiffer, "letters key 120 of shard 0 is at version 0.2 with digest " +
			"0000000000000002 on node 0, and at version 0.1 with digest 0000000000000001 on node 1"},
		{"a replica has another value", `
			load x 1
			replica 0@0 x 1
			replica 0@2 x 1:9`, `
			load x 1
			replica 0@0 x 1
			replica 0@2 x 1`, ReplicasDiffer, ""},
		{"a replica lacks a key", `
			load x 1, y 1
			replica 0@0 x 1, y 1
			replica 0@1 x 1`, `
			load x 1, y 1
			replica 0@0 x 1, y 1
			replica 0@1 x 1, y 1`, ReplicasDiffer, "is on 1 of 2 replicas"},
		{"a replica lacks everything", `
			load x 1
			replica 0@0 x 1
			replica 0@1`, `
			load x 1
			replica 0@0 x 1`, ReplicasDiffer, "is on 1 of 2 replicas"},
		{"a replica has a key that was deleted", `
			load x 1
			0-10 d x 2
			replica 0@0 d x 2
			replica 0@1 x 1`, `
			load x 1
			0-10 d x 2
			replica 0@0 d x 2
			replica 0@1`, ReplicasDiffer, "deleted with version 0.2 on node 0"},
		{"replicas have deleted a key at different versions", `
			load x 1
			0-10 d x 2
			replica 0@0 d x 2
			replica 0@1 d x 3`, `
			load x 1
			0-10 d x 2
			replica 0@0 d x 2
			replica 0@1 d x 2`, ReplicasDiffer, ""},
		{"a key stands in two shards", `
			load x 1
			replica 0@0 x 1
			replica 1@1 x 1`, `
			load x 1
			replica 0@0 x 1
			replica 1@1`, ReplicasDiffer, "stands in shard 0 on node 0, and in shard 1 on node 1"},
		{"the last write is lost on all replicas", `
			load x 1
			0-10 w x 2
			replica 0@0 x 1
			replica 0@1 x 1`, `
			load x 1
			0-10 w x 2
			replica 0@0 x 2
			replica 0@1 x 2`, LostWrite, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := check(t, parse(t, c.broken), Options{})
			if broken.Verdict != Violated || broken.Violations[0].Anomaly != c.want ||
				!strings.Contains(broken.Violations[0].Text, c.says) {
				t.Errorf("%v: %+v", broken.Verdict, broken.Violations)
			}
			if r := check(t, parse(t, c.repaired), Options{}); r.Verdict != Serializable {
				t.Errorf("repaired: %v, %+v", r.Verdict, r.Violations)
			}
		})
	}
}

// TestDecisionsAreCounted.
func TestDecisionsAreCounted(t *testing.T) {
	r := check(t, parse(t, `
		load x 1, y 1
		0-10 w x 2; unknown #7
		0-10 w y 2; unknown #8
		0-10 w y 2; unknown
		20-30 w x 2; recovered #7
		20-30 w y 2; revoked #8
		20-30 w x 2; recovered #7
		replica 3@0 x 2, y 1
		replica 3@4 x 2, y 1`), Options{})
	if r.Verdict != Serializable || r.Recovered != 1 || r.Revoked != 1 || r.Aborted != 1 || r.Unknown != 1 ||
		r.UnknownCommitted != 0 || r.Checked != 1 || r.Replicas != 2 || *r.FinalKeys != 2 {
		t.Errorf("%+v", r)
	}
}
