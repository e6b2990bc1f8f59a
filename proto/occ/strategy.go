package occ

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/protocol"
)

// Set is which records of a transaction a phase is about.
type Set uint8

// Sets.
const (
	ReadSet  Set = 1 << iota // what it has seen and does not change
	WriteSet                 // what it changes
)

// Replica is which copies of these records.
type Replica uint8

// Replicas.
const (
	Primaries Replica = iota + 1
	Backups           // and whoever has to hold a record of the update beside them
)

// Carrier is how a phase reaches the records of other nodes. Those of the own node are reached by the
// CPU, without messages.
type Carrier uint8

// Carriers.
const (
	// RPC is one request per node, which its CPU serves.
	RPC Carrier = iota + 1
	// OneSided is READ, WRITE and CAS, which the node's NIC carries out.
	OneSided
	// Ring is as RPC, by ring messages (package ring).
	Ring
	carrierEnd
)

func (c Carrier) String() string {
	return [...]string{"?", "rpc", "one-sided verbs", "ring messages"}[min(c, carrierEnd-1)]
}

// Step is what a phase does in a strategy.
type Step struct {
	Records Set
	At      Replica
	By      Carrier
}

// Strategy says for each phase who, and how.
type Strategy struct {
	// Steps by phase. VALIDATE may be left out where LOCK is about all records.
	Steps [proto.PhaseEnd]Step
	// Regions: where there are line words, the own node's records are compared and written in a region of
	// package htm (DrTM+R). It goes with locks on all other records.
	Regions bool
	// Uncached look-ups for one-sided verbs go through the buckets each time (DrTM+H NC).
	Uncached bool
	// Single: each record has a message of its own, instead of one for all records of a node.
	Single bool
	// Serial: COMMIT writes, waits for that, and then unlocks, instead of both in one message.
	Serial bool
	// Unawaited: a transaction whose update is in the logs of all holders has ended when COMMIT is sent.
	Unawaited bool
	// Undo: backups apply an update in LOG, which is carried by RPC, and keep what it replaces until it is decided.
	// Reads take place at the own machine's backups (Dandelion).
	Undo bool
	// LocksAll: a transaction that changes anything locks all its records in LOCK, those of the own node, too, and
	// validates nothing. One that changes nothing locks nothing and validates (Dandelion's Dnl-RO).
	LocksAll bool
	// LogsPrimary: LOG gives the update to the primaries, too, which apply it at once; COMMIT only unlocks.
	LogsPrimary bool
	// LocksInLog: where there are backups, there is no LOCK at other nodes. LOG reaches every replica of every record,
	// those that are only read included, and its host locks them, at the versions that were read; COMMIT tells each to
	// unlock (Dandelion's Dnl-1).
	LocksInLog bool
	// Flows: messages are compact, and travel on a flow for each phase (Dandelion §5).
	Flows bool
	// Gathers: look-ups of records of the own machine are made in batches (Dandelion §6).
	Gathers bool
	// RemoteBackups: with Undo, records are read at their primary though the own machine has a backup.
	RemoteBackups bool
	// LateOnly: records are locked in LOCK, and there is no option "lock".
	LateOnly bool
	// Software is charged for records beside the costs of package occ, in the simulator.
	Software protocol.Software
}

// ByRPC is the strategy of which every phase is carried by RPC (Xenic §2.2.2, FaSST). Others begin with it.
func ByRPC() (s Strategy) {
	s.Steps = [proto.PhaseEnd]Step{
		proto.PhaseExecute:  {ReadSet | WriteSet, Primaries, RPC},
		proto.PhaseLock:     {WriteSet, Primaries, RPC},
		proto.PhaseValidate: {ReadSet, Primaries, RPC},
		proto.PhaseLog:      {WriteSet, Backups, RPC},
		proto.PhaseCommit:   {WriteSet, Primaries, RPC},
		proto.PhaseTruncate: {WriteSet, Backups, RPC}}
	return s
}

// With is the strategy with another carrier of some phases.
func (s Strategy) With(c Carrier, phases ...proto.Phase) Strategy {
	for _, p := range phases {
		s.Steps[p].By = c
	}
	return s
}

// by is the carrier of a phase.
func (s *Strategy) by(p proto.Phase) Carrier { return s.Steps[p].By }

// uses reports whether one of some phases is carried by c.
func (s *Strategy) uses(c Carrier, phases ...proto.Phase) bool {
	for _, p := range phases {
		if s.by(p) == c {
			return true
		}
	}
	return false
}

// seals reports whether records can have seals where there are no line words: they are READ, and CPUs alone lock and
// write them.
func (s *Strategy) seals() bool {
	return s.uses(OneSided, proto.PhaseExecute, proto.PhaseValidate) && !s.uses(OneSided, proto.PhaseLock, proto.PhaseCommit)
}

// check refuses a strategy that this package cannot carry out.
func (s *Strategy) check() error {
	want := ByRPC()
	locksAll := s.Steps[proto.PhaseLock].Records == ReadSet|WriteSet
	if locksAll {
		want.Steps[proto.PhaseLock].Records = ReadSet | WriteSet
	}
	for p := proto.PhaseExecute; p < proto.PhaseEnd; p++ {
		x := s.Steps[p]
		if p == proto.PhaseValidate && x == (Step{}) && locksAll {
			continue
		}
		if x.Records != want.Steps[p].Records || x.At != want.Steps[p].At || x.By < RPC ||
			x.By >= carrierEnd {
			return fmt.Errorf("phase %v of the strategy is about records %d at replicas %d by %v: there is no "+
				"such phase; begin with ByRPC and change carriers", p, x.Records, x.At, x.By)
		}
	}
	if s.Regions && !locksAll {
		return errors.New("the strategy commits the own node's records in a region and does not lock all others: " +
			"what happens between the region and the validation of others would go unnoticed")
	}
	if s.LocksInLog && !(s.LocksAll && s.LogsPrimary) {
		return errors.New("the strategy locks in the log, and does not lock all records there or leaves primaries out: " +
			"there is no such protocol")
	}
	if (s.LocksAll || s.LogsPrimary) && !s.Undo {
		return errors.New("the strategy locks all records or logs at primaries, and has no undo logs: there is no such " +
			"protocol")
	}
	if s.Undo && s.by(proto.PhaseLog) == OneSided {
		return errors.New("the strategy has undo logs, and one-sided verbs carry LOG: only a backup's CPU can apply " +
			"an update at once")
	}
	if s.Unawaited && s.by(proto.PhaseCommit) == OneSided {
		return errors.New("the strategy does not wait for COMMIT, and one-sided verbs carry it: only requests to hosts " +
			"can be left under way")
	}
	if lock, unlock := s.by(proto.PhaseLock), s.by(proto.PhaseCommit); lock != unlock {
		return fmt.Errorf("the strategy locks by %v and unlocks by %v: without line words a CPU's atomics and a "+
			"NIC's do not exclude each other; let both phases have one carrier", lock, unlock)
	}
	return nil
}
