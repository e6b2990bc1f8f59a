package reproduce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/verbs/fiber"
)

// Parts of Xenic's design on and off on shared memory, where workers play the NICs. That says nothing of a NIC's speed: what
// is looked at is the sign. Gathered messages and transactions that are executed at the other node save work, so they save
// CPU time of this machine, too.

const (
	playedNodes  = 3
	playedFibers = 16
)

// part of the design, by its option.
type designPart struct{ name, option, gain string }

func wallParts() []designPart {
	return []designPart{{"batching", "nic-batching", "throughput 1.98 over 1.47 of the baseline"},
		{"multi-hop", "multi-hop", "latency -42 against -32 % of the baseline"}}
}

// figure9Measured is Figure 9 by the wall clock: pairs of runs, each part on and off, one after the other; Run.Seeds rounds of
// so many pairs.
func figure9Measured(r *Run) (*Outcome, error) {
	pairs, each := r.Seeds*pick(r, 11, 1), pick(r, 300, 5)
	o := &Outcome{Conditions: wallConditions(r.Seeds, pairs, each)}
	done, total := 0, 2*pairs*len(wallParts())
	for _, p := range wallParts() {
		var gains []float64
		for i := range pairs {
			var cpu [2]time.Duration // without, with
			for j := range cpu {
				with := (i + j) % 2
				if err := r.step(done, total); err != nil {
					return nil, err
				}
				var err error
				if cpu[with], err = wallRun(r.ctx, option.Settings{p.option: option.Text(with == 1)}, each, uint64(i+1)); err != nil {
					return nil, err
				}
				done++
			}
			gains = append(gains, float64(cpu[0])/float64(cpu[1]))
		}
		o.Rows = append(o.Rows, number{what: p.name + ": CPU time of a transaction without it, over that with it", unit: "times",
			digits: 3}.seen(gains...))
		sign := word(p.name+": it saves CPU time, in the median of the pairs", fiveSeven, "yes", "yes", p.gain)
		if median(gains) <= 1 {
			sign = word(sign.What, sign.Section, "yes", "no", p.gain)
			sign.Missed = "other work of this machine is in the CPU time, by shared caches: repeat it when the machine is idle"
		}
		o.Rows = append(o.Rows, sign)
	}
	return o, nil
}

// wallConditions of so many pairs of runs, of all rounds. Each pair has a seed of its own.
func wallConditions(rounds, pairs, each int) string {
	return fmt.Sprintf("SmallBank of %d nodes on one thread of this machine, on shared memory; workers play the NICs; %d replicas, "+
		"customers anywhere, %d transactions under way; %s of runs of %d transactions, with and without the part, alternating; CPU "+
		"time of the process; %s, one for each of --seeds; the seed of a pair is its number", playedNodes, copies,
		playedNodes*playedFibers, several(pairs, "pair"), each*playedNodes*playedFibers, several(rounds, "round"))
}

// wallRun is the CPU time of a transaction.
func wallRun(ctx context.Context, settings option.Settings, each int, seed uint64) (took time.Duration, err error) {
	p, err := node.FindProtocol(xenicName)
	if err != nil {
		return 0, err
	}
	b := smallbank.Default(playedNodes)
	b.Accounts, b.ValueBytes = 1000, 4
	b.PlaceAnywhere()
	w, err := smallbank.New(b)
	if err != nil {
		return 0, err
	}
	c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p, Options: settings, Workload: w,
		Functions: smallbank.Spec().Functions, Nodes: playedNodes, Fibers: playedFibers, Replicas: copies, Seed: seed}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var counts workload.Counts // of one thread
	load := func(each int) error {
		return c.Start("client", playedFibers, func(f *fiber.Fiber, w *node.Worker, i int) error {
			random, left := rand.New(rand.NewPCG(seed, uint64(int(w.Node)*playedFibers+i))), each
			d := workload.Driver{Client: c.Config.Workload.NewClient(w.Node, random), Counts: &counts,
				Over: func() bool { left--; return left < 0 }, Runner: proto.Runner{Engine: w.Engine, Rand: random}}
			return d.Run(f)
		}).Wait(ctx)
	}
	if err := load(max(each/10, 1)); err != nil {
		return 0, err
	}
	begin, err := processTime()
	if err != nil {
		return 0, err
	}
	if err := load(each); err != nil {
		return 0, err
	}
	end, err := processTime()
	if err != nil {
		return 0, err
	}
	if left, err := c.Settle(ctx); err != nil {
		return 0, err
	} else if left != (node.Unsettled{}) {
		return 0, fmt.Errorf("updates have not arrived: %+v", left)
	}
	return (end - begin) / time.Duration(each*playedNodes*playedFibers), errors.Join(c.Stop(), c.Audit())
}

// median of some values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// processTime is the CPU time that the process has used.
func processTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
