package node

import (
	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/nocc"
	"drtmd/proto/twopl"
)

// noccChargePs is the CPU time of a transaction without concurrency control in the simulator:
// assumed, five cache misses of 50 ns.
const noccChargePs = 250_000

// Protocols lists what transactions can run on.
func Protocols() []Protocol {
	return []Protocol{
		{Name: "drtm", New: newDrTM, Declared: true, Leases: true, Mutations: withKeeper(drtmMutations()), MaxNodes: drtm.MaxNodes,
			Doc: "DrTM: leases and locks over verbs between nodes, emulated HTM within one"},
		{Name: "nocc", OneThread: true, New: newNoCC,
			Doc: "no concurrency control, on one thread: the limit to compare with"},
		{Name: "twopl", New: newTwoPL(false), Mutations: withKeeper(twoplMutations()),
			Doc: "no-wait two-phase locking over verbs, local records by loopback (DrTM §7.3)"},
		{Name: "twopl-local", New: newTwoPL(true), Mutations: withKeeper(twoplMutations()),
			Doc: "the same, but local records are locked by the CPU where the device allows it"},
	}
}

func newNoCC(e *Env) (proto.Engine, error) {
	return nocc.New(nocc.Config{Specs: e.Specs, Tables: e.All, Placement: e.Placement, Region: e.Region,
		Recorder: e.Recorder, Clock: e.RecorderClock, ChargePs: noccChargePs}), nil
}

func newTwoPL(cpuLocks bool) func(*Env) (proto.Engine, error) {
	return func(e *Env) (proto.Engine, error) {
		mutation, err := twopl.ParseMutation(e.Mutation)
		if err != nil {
			return nil, err
		}
		return made(twopl.New(twopl.Config{Node: e.Node, Worker: uint32(e.Index), Fibers: e.Worker,
			Port: e.Port, Peers: e.Peers, Tables: e.Specs, Local: e.Tables, Memory: e.Memory,
			Cache: e.Cache, Placement: e.Placement, Region: e.Region, Scope: e.Scope,
			CPULocks: cpuLocks, Structure: e.Structure, Life: e.Life, Recorder: e.Recorder,
			Clock: e.RecorderClock, Time: e.Clock, HolderLives: e.HolderLives, Mutation: mutation}))
	}
}

// made is what a New of a protocol gave, as a proto.Engine: nil, and not one that holds a nil
// pointer, after an error.
func made[E proto.Engine](e E, err error) (proto.Engine, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

func newDrTM(e *Env) (proto.Engine, error) {
	cfg, err := DrTMConfig(e)
	if err != nil {
		return nil, err
	}
	return made(drtm.New(cfg))
}

// DrTMConfig is what drtm's engines are made from; programs that set more of it make their own
// Protocol with it.
func DrTMConfig(e *Env) (drtm.Config, error) {
	mutation, err := drtm.ParseMutation(e.Mutation)
	if err != nil {
		return drtm.Config{}, err
	}
	return drtm.Config{Node: e.Node, Index: e.Index, Worker: e.Worker, Port: e.Port,
		Peers: e.Peers, Fibers: e.Fibers, Specs: e.Specs, Tables: e.Tables, Memory: e.Memory,
		Cache: e.Cache, Placement: e.Placement, Clock: e.Clock, Delta: e.ClockError,
		WorstDelta: e.WorstClockError, RoundTrip: e.RoundTrip,
		Lease: e.Lease, LeaseReadOnly: e.LeaseReadOnly,
		Scope: e.Scope, Region: e.Region,
		Simulated: e.Simulated, HolderLives: e.HolderLives, Recorder: e.Recorder, RecorderClock: e.RecorderClock,
		Mutation: mutation}, nil
}
