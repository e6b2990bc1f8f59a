package protocol

import (
	"slices"

	"drtmd/proto/option"
)

// Simulation is what scenarios must know to run a protocol for some milliseconds of virtual time.
type Simulation struct {
	Steps Steps
	// Options are those of its options that must be other than usual in so short a time, in which a
	// message takes some microseconds.
	Options option.Settings
	// Dimensions are what its runs are varied by, beside what all protocols' runs are.
	Dimensions []Dimension
	// Queues: its messages take room in memory of their receiver, which can run out.
	Queues bool
	// Atomics: NICs lock its records, by atomics.
	Atomics bool
	// Undoes: backups apply updates before these are decided.
	Undoes bool
}

// Steps are the marked steps (fiber.Fiber.Step) of a protocol's engines: All, and those of them that
// the simulator's draws prefer.
type Steps struct {
	All []string
	// NoLineWords are marked in place of others of All where memory has no line words. Schedules may
	// name them; faults are not drawn at them.
	NoLineWords []string
	// Critical steps are those between the taking of a lock or lease and what relies on it: a worker
	// that loses the processor there, for longer than a lease lasts, must do no harm.
	Critical []string
	// Fine steps are between two accesses that belong together, or where something is about to take
	// effect.
	Fine []string
	// Held are those at which locks are held: an outage there leaves something to be done.
	Held []string
	// Leased are those at which a transaction counts on its leases, and has not begun to commit.
	Leased []string
	// Inner steps are those of a commit that is half made in memory: a crash there must be mended.
	Inner []string
	// Chained are marked where transactions run in pieces, and nowhere else.
	Chained []string
	// Deferred are marked where pieces are deferred to a barrier, and nowhere else.
	Deferred []string
	// Logged are marked where records have backups, and nowhere else.
	Logged []string
	// Durable are marked where nodes log their own transactions, and nowhere else.
	Durable []string
	// DurableChains are marked where both are: nodes log, and transactions run in pieces.
	DurableChains []string
	// Paying is marked where an engine does what it owes.
	Paying string
	// Recovering are marked when members of such a cluster change.
	Recovering []string
}

// WithDeaths are the steps of a cluster whose records have backups, and whose members change.
func (s Steps) WithDeaths() Steps {
	s = s.WithBackups()
	s.All = slices.Concat(s.All, s.Recovering)
	s.Fine = slices.Concat(s.Fine, s.Recovering)
	return s
}

// WithChains are the steps of a cluster whose transactions run in pieces.
func (s Steps) WithChains() Steps {
	s.All = slices.Concat(s.All, s.Chained)
	s.Fine = slices.Concat(s.Fine, s.Chained)
	return s
}

// WithBarrier are the steps of a cluster whose transactions run in pieces, some of which are deferred.
func (s Steps) WithBarrier() Steps {
	s.All = slices.Concat(s.All, s.Deferred)
	s.Fine = slices.Concat(s.Fine, s.Deferred)
	return s
}

// WithBackups are the steps of a cluster whose records have backups.
func (s Steps) WithBackups() Steps {
	s.All = slices.Concat(s.All, s.Logged)
	s.Fine = slices.Concat(s.Fine, s.Logged)
	return s
}

// WithLogs are the steps of a cluster whose nodes log their own transactions.
func (s Steps) WithLogs() Steps {
	s.All = slices.Concat(s.All, s.Durable)
	s.Inner = slices.Concat(s.Inner, s.Durable)
	return s
}

// WithChainLogs are the steps of a cluster whose nodes log transactions that run in pieces.
func (s Steps) WithChainLogs() Steps {
	s.Durable = slices.Concat(s.Durable, s.DurableChains)
	return s.WithLogs().WithChains()
}

// Dimension is a choice of options that seeds draw, such as one that brings out a rare path.
type Dimension struct {
	Name, Doc string
	Values    []DimensionValue // the first is the plainest
	// Drawn are the names of values that seeds draw from, each as often as it is listed.
	Drawn []string
	// Short is the value in runs that are crashed at every step; "" is the plainest.
	Short string
	// Only are the scenarios that have the dimension; nil is all.
	Only []string
}

// DimensionValue is a name for some options.
type DimensionValue struct {
	Name    string
	Options option.Settings
}
