package scenario

import (
	"context"
	"slices"
	"strings"
	"testing"

	"drtmd/verbs/scenario"
)

// directed is a run that showed a bug. Without the step that mutation leaves out, if it names one, it must show it again.
type directed struct {
	what, scenario string
	seed           uint64
	workers        int
	set, faults    string // faults: a schedule, or asDrawn
	mutation       string
}

// asDrawn stands for the faults that the seed draws.
const asDrawn = "random"

// Mutations that drawn faults do not show within 150 seeds.
const (
	fillUnkept       = "fill-copies-unkept"
	appliedForgotten = "applied-records-forgotten"
	newReplicaOld    = "new-replica-takes-old-records"
	forgottenRemade  = "forgotten-update-made-again"
)

// failedOnce are the runs of TestRunsThatFailedOnce.
func failedOnce() []directed {
	return []directed{
		{"a node reads its memory after its lease has ended, and tells its clients", "recovery-hades", 4, 2,
			"skew=0,remote=2,reads=50,reuse=no", "at 137us pause node=n0 for=1.166ms", ""},
		{"a replica is filled with what a coordinator has stored that dies before its records are kept", "recovery-hades", 3, 2,
			"words=no,skew=0,remote=2,reads=default,lines=4,rollback=20,reuse=yes,plans=few,replicas=3,filters=usual,pairs=all," +
				"cores=all,nic=usual,patience=one,cache=usual",
			"at 786.437us cut from=n2 to=n3 for=3ms; at 795.437us crash node=n2 dram=lost for=3ms", fillUnkept},
		{"a coordinator dies when one replica has applied a record, and another one has not heard that it may", "recovery-hades",
			3, 2, "words=no,skew=0,remote=50,reads=default,lines=4,rollback=20,reuse=yes,plans=few,replicas=2,filters=usual," +
				"pairs=all,cores=all,nic=usual,patience=one,cache=usual",
			"at 307.8us cut from=n2 to=n1 for=3ms; at 311.8us crash node=n2 dram=lost for=3ms", appliedForgotten},
		{"a machine stands still until it is removed, before the first engines are made", "recovery-hades", 446, 1,
			"words=yes,skew=0,remote=50,reads=default,lines=1,rollback=0,reuse=no,plans=few,replicas=2",
			"at 29.354694us pause node=n1 for=849.868966us", ""},
		{"a worker begins to fill a replica when another one has stopped for the next view", "recovery-scans-hades", 30066, 2,
			"words=yes,remote=10,reads=50,lines=1,rollback=20,replicas=2,filters=usual,pairs=all,cores=all,nic=usual," +
				"patience=usual,cache=tiny", asDrawn, ""},
		{"two threads of a host apply what one transaction holds", "recovery-scans-xenic", 3030, 2,
			"remote=50,reads=default,lines=1,rollback=0,replicas=2,local=yes,nic=usual,logs=usual,limit=1", asDrawn, ""},
		{"a refusal rests on records that were read, and not locked", "recovery-scans-xenic", 98, 2,
			"remote=50,reads=default,lines=1,rollback=0,replicas=3,local=no,nic=plain,logs=usual,limit=1", asDrawn, ""},
		{"a record of a log wraps around, and its end comes first", "recovery-tpcc-xenic", 20036, 2,
			"remote=2,replicas=3,local=yes,nic=plain,logs=usual,limit=16", asDrawn, ""},
		{"a thread that applies logs begins late", "scans-xenic", 20331, 2,
			"remote=10,reads=default,lines=1,rollback=0,replicas=3,local=no,nic=plain,logs=short,limit=16", asDrawn, ""},
		{"a coordinator stands still, and is removed with the only holder of a record long before it ends",
			"recovery-scans-xenic", 30015, 1,
			"remote=50,reads=default,lines=1,rollback=0,replicas=2,local=yes,nic=usual,logs=usual,limit=16",
			"at 0ns clock-drift node=n0 drift=-288777; at 168.527373us pause node=n3 for=1.016607786ms; " +
				"at 153.622997us delay-rc from=n3 to=* times=4 by=844.729022us; at 0ns drop from=* to=* ppm=18620 for=3ms; " +
				"at 0ns duplicate from=* to=* ppm=23230 by=5.09326us for=3ms; " +
				"at 0ns reorder from=* to=* ppm=58827 by=4.890244us for=3ms", ""},
		{"a machine crashes when the run has ended, and comes back", "recovery-drtmh", 41056, 1,
			"words=no,seals=yes,reuse=yes,lines=3", asDrawn, ""},
		{"a log of the dead has an old deletion of a shard that its host is filled with only now", "recovery-farm", 41047, 1,
			"words=no,skew=0.7,remote=10,reads=50,lines=2,rollback=20,reuse=yes,plans=few,replicas=2,seals=no," +
				"optimisations=all,rings=small,slots=enough", asDrawn, newReplicaOld},
		{"a dead coordinator has locked the key of a record again that it wrote, and that was deleted and forgotten since",
			"recovery-farm", 50029, 1, "words=yes,skew=0.99,remote=50,reads=default,lines=1,rollback=50,reuse=yes,plans=few," +
				"replicas=2,seals=no,optimisations=none,rings=small,slots=few", asDrawn, forgottenRemade},
	}
}

// TestRunsThatFailedOnce: faults that were drawn too rarely, or never, and that showed what is mended since.
func TestRunsThatFailedOnce(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector sees nothing here that the run without faults does not show")
	}
	for _, x := range failedOnce() {
		t.Run(x.what, func(t *testing.T) {
			o := scenario.Options{Seed: x.seed, Nodes: 4, Workers: x.workers, Fibers: 3}
			if !strings.HasPrefix(x.scenario, "recovery-") {
				o.Nodes = 3 // as the seed draws it
			}
			var err error
			if o.Settings, err = scenario.ParseSettings(x.set); err != nil {
				t.Fatal(err)
			}
			if x.faults == asDrawn {
				o.Random = true
			} else if o.Faults, err = scenario.ParseFaults(x.faults); err != nil {
				t.Fatal(err)
			}
			for _, o.Mutation = range slices.Compact([]string{"", x.mutation}) {
				r, err := scenario.Run(context.Background(), find(t, x.scenario), o)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case r.Failure != nil && o.Mutation == "":
					t.Error(r.Failure)
				case r.Failure == nil && o.Mutation != "":
					t.Errorf("mutation %s is not caught", o.Mutation)
				}
			}
		})
	}
}
