package onesided

import (
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/proto/txset"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs/fiber"
)

// Rules are what a protocol says of itself.
type Rules struct {
	// Owner is the machine that holds the lock in a state word.
	Owner func(word uint64) proto.NodeID
	// Now is the time of orphans and debts.
	Now         func() time.Duration
	OrphanAfter time.Duration // 0 = proto.DefaultOrphanAfter
	// Declared and AccessPs are those of txset.Config.
	Declared bool
	AccessPs int64
	// Uncached look-ups go through buckets each time, without the location cache.
	Uncached bool
	// Made is called when a host has found or made an absent entry for another machine, which is of use to nobody once
	// the transaction that asked for it has left; nil: transactions reclaim them. Those of the own machine: Part.Made.
	Made func(proto.TableID, proto.Key)
	// Tombstone is called with the absent entries that a scan of another machine is told of; nil: nobody wants to know.
	Tombstone func(table proto.TableID, k proto.Key, place uint64)
	// Room is called when a table is full: Done if another try may find room. nil: there is none.
	Room func() Code
	// Near says of each table, by its number less 1, that the CPU has the state words of the own machine's records, which no
	// other machine locks; nil: the NIC has all of them.
	Near  []bool
	Steps Steps
	Costs Costs
	Skip  Skip
}

// Steps are the names of the marked steps; "" is none.
type Steps struct {
	Lookup, Ensure string // look-ups or calls are about to be sent
	Lines          string // between the lines of a record that is peeked at
	Finish         string // a debt is about to be paid
	Unlocked       string // a record was unlocked before its update: with Skip of WriteFirst
}

// Costs are CPU time in the simulator, in picoseconds.
type Costs struct {
	Find   int64 // of a look-up in the own machine's table, or an entry made or given back there
	Lookup int64 // of one at a peer
	Ask    int64 // of the requests for a lock, beside what package fiber charges
	Update int64 // of those for an update
}

// Base is the part of an engine.
type Base struct {
	Rules
	Env       *protocol.Env
	Counters  proto.Stats
	Sightings proto.Sightings
	debts     proto.Debts
	// Ahead brings what look-ups in the own machine's tables read first into the caches.
	Ahead   protocol.Prefetcher
	records txset.Config
	client  *remote.Client
	region  *htm.Region // of the host's functions
	walk    walk
	// full is the abort where a table has no room; with a bound of growth it names that.
	full   *proto.Abort
	allTxs []*Tx
	gone   []*proto.Abort
}

// Init makes the base of an engine. Everything in e must outlive it.
func (b *Base) Init(e *protocol.Env, r Rules) (err error) {
	b.Env, b.Rules = e, r
	b.Sightings.After, b.Sightings.Lives = r.OrphanAfter, e.HolderLives
	if r.OrphanAfter == 0 {
		b.Sightings.After = proto.DefaultOrphanAfter
	}
	b.debts.Unlooked, b.debts.Unowned = r.Skip == DebtLook, r.Skip == DebtOwner
	b.gone = make([]*proto.Abort, len(e.Peers))
	b.full = &proto.Abort{Reason: proto.ReasonFull, Cause: e.Growth.Refusal()}
	b.records = txset.Config{Specs: e.Specs, Placement: e.Placement, Nodes: len(e.Peers),
		Declared: r.Declared, AccessPs: r.AccessPs, Recorder: e.Recorder, Clock: e.RecorderClock,
		SpentAllowed: r.Skip == SpentCheck}
	b.Ahead = protocol.PrefetcherOf(e.Tables)
	for _, t := range e.Tables {
		b.records.Records = append(b.records.Records, *t.Record())
	}
	region := e.Region
	region.Flag = e.Worker.RegionFlag()
	region.Step, region.Spurious = nil, nil // they run in handlers, and again at once
	b.region = htm.NewRegion(region)
	b.walk.take, b.walk.hash = b.walk.add, b.walk.count
	b.client, err = remote.NewClient(e.Worker, max(e.Fibers, 1))
	return err
}

// Stats implements proto.Engine.
func (b *Base) Stats() *proto.Stats { return &b.Counters }

// HostRegion is that of functions which run at once.
func (b *Base) HostRegion() *htm.Region { return b.region }

// HostRegions are the statistics of the host's regions.
func (b *Base) HostRegions() htm.Stats { return b.region.Stats }

// Worded reports whether memory has line words: then the CPU's accesses and the device's exclude
// each other.
func (b *Base) Worded() bool { return b.Env.Memory.Words != nil }

// Close frees the registered memory. The worker is closed, or nothing of the engine is in flight. It
// may be called twice.
func (b *Base) Close() error {
	errs := []error{b.client.Close()}
	for _, t := range b.allTxs {
		errs = append(errs, t.buffers.Close(), t.heads.Close())
	}
	b.allTxs = nil
	return errors.Join(errs...)
}

// peer is the machine of a record as it is connected now.
func (b *Base) peer(r *Record) *proto.Peer { return &b.Env.Peers[r.Node] }

// There is the replica of a record's shard on its machine.
func (b *Base) There(r *Record) *proto.PeerShare { return b.Env.Peers[r.Node].Shares[r.At.Shard] }

// Here is the own machine's replica of a record's shard.
func (b *Base) Here(r *Record) *protocol.Share { return b.Env.Shares[r.At.Shard] }

// Address is where the entry of a record is on its machine, and the key to the memory there.
func (b *Base) Address(r *Record) (addr uint64, rkey uint32) {
	s := b.There(r)
	switch {
	case layout.InFirst(r.Own.Off):
		return s.Memory.Addr + r.Own.Off, s.Memory.RKey
	case r.Node == b.Env.Node:
		return b.Here(r).Tables[r.Table-1].(protocol.GrowingIndex).Resolve(int(r.Own.Off))
	}
	return s.Tables[r.Table-1].Resolve(r.Own.Off)
}

// Memory is where the entry of a record of the own machine is.
func (b *Base) Memory(r *Record) (m *htm.Memory, off int) {
	s := b.Here(r)
	if layout.InFirst(r.Own.Off) {
		return s.Memory, int(r.Own.Off)
	}
	return s.Tables[r.Table-1].At(int(r.Own.Off))
}

// WordAt is an aligned word of memory as it is now.
func WordAt(m *htm.Memory, off uint64) uint64 { return atomic.LoadUint64(WordIn(m, int(off))) }

// WordIn is where an aligned word of memory is.
func WordIn(m *htm.Memory, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(&m.Bytes[off : off+8][0]))
}

// KeyOf, StateOf and VersionOf are words of an entry.
func KeyOf(m *htm.Memory, off uint64) uint64 { return WordAt(m, off+layout.KeyOffset) }

// StateOf is the state word, see KeyOf.
func StateOf(m *htm.Memory, off uint64) uint64 { return WordAt(m, off+layout.StateOffset) }

// VersionOf is the version word, see KeyOf.
func VersionOf(m *htm.Memory, off uint64) layout.Version {
	return layout.Version(WordAt(m, off+layout.VersionOffset))
}

// KeyNow, StateNow and VersionNow are words of an entry of the own machine's own shard.
func (b *Base) KeyNow(off uint64) uint64 { return KeyOf(b.Env.Memory, off) }

// StateNow is the state word, see KeyNow.
func (b *Base) StateNow(off uint64) uint64 { return StateOf(b.Env.Memory, off) }

// VersionNow is the version word, see KeyNow.
func (b *Base) VersionNow(off uint64) layout.Version { return VersionOf(b.Env.Memory, off) }

// CASState swaps the state word of an entry of the own machine through its NIC, or by the CPU if the table's words are the
// CPU's.
func (b *Base) CASState(f *fiber.Fiber, table proto.TableID, off, expect, swap uint64) (old uint64, err error) {
	if b.nearTable(int(table)-1) && !b.Skips(NearRound) {
		return swapWord(WordIn(b.Env.Memory, int(off+layout.StateOffset)), expect, swap), nil
	}
	p := &b.Env.Peers[b.Env.Node]
	return p.Conn.CAS(f, p.Memory.Addr+off+layout.StateOffset, p.Memory.RKey, expect, swap)
}

// Tx is the part of a transaction's attempts. It is used again for others.
type Tx struct {
	txset.Set[Part]
	Batch fiber.Batch // the requests in flight
	// Sent is the traffic of the last Look, Ensure or Reclaim.
	Sent    proto.Traffic
	base    *Base
	buffers txset.Buffers
	lookups *remote.Batch
	calls   []*call
	asked   int // of calls that are under way
	// MadeHere: the own machine has found or made an absent entry for a record of the attempt. The protocol clears it.
	MadeHere bool
	// places are of the scan that runs.
	places     places
	heads      txset.Buffers // of records that ReadFound reads, by index
	rangeCalls []*rangeCall
}

// InitTx prepares a transaction object, of which there are as many as run at the same time.
func (b *Base) InitTx(t *Tx, l txset.Loader) {
	t.base, t.lookups = b, b.client.NewBatch()
	t.buffers.Init(b.Env.Worker.PD(), b.records.Records)
	t.heads.Init(b.Env.Worker.PD(), nil) // a line for each
	t.Set.Init(&b.records, &t.buffers, l)
	b.allTxs = append(b.allTxs, t)
}

// Skips reports whether a safety step is left out.
func (b *Base) Skips(s Skip) bool { return b.Skip == s }
