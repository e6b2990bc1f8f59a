package occ

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
)

// OptLock is the option of when records that are written are locked.
const OptLock = "lock"

// Values of OptLock.
const (
	LockEarly = "execute" // in EXECUTE, with the read (Xenic §2.2.1)
	LockLate  = "commit"  // in LOCK, at the version that was read (HADES §II, Dandelion)
)

// Instance is a protocol of this skeleton.
type Instance struct {
	Name, Doc string
	// Family is the instance of which this one is a variant; "" is none.
	Family   string
	Strategy Strategy
	// Needs beside those of all.
	Needs protocol.Needs
	// Late: records are locked in LOCK unless option "lock" says otherwise.
	Late bool
	// Options of its own. Tune changes the strategy as their values say; the phases and their carriers stay.
	Options option.List
	Tune    func(s *Strategy, o option.Values)
	// Dimensions by which its runs in scenarios are varied, and Simulated the options that must be other than
	// usual there.
	Dimensions []protocol.Dimension
	Simulated  option.Settings
}

// Protocol describes an instance.
func (i Instance) Protocol() protocol.Protocol {
	options, dimensions := i.lockOption()
	dimensions = append(dimensions, logDimension())
	if i.Strategy.uses(Ring, proto.Phases()...) {
		options = append(options, ringBytes())
	}
	options = append(append(options, protocol.OrphanAfter(), protocol.LogBytes()), i.Options...)
	if i.Strategy.seals() {
		options, dimensions = append(options, protocol.Seals()), append(dimensions, sealDimension())
	}
	offers := proto.OfferDebts | proto.OfferOrphans | proto.OfferTruncations | proto.OfferRecovery
	if i.Strategy.Regions {
		offers |= proto.OfferRegions
	}
	needs := i.Needs
	if i.Strategy.seals() {
		needs.Unworded = layout.KindSealed
	}
	needs.Early = true // what is owed to a machine that restarts is asked of its engine
	needs.Replicates, needs.Logs = true, true
	if i.Strategy.Undo { // backups apply a record at once, from the message in which it comes
		needs.LongestLog = messageBytes
		needs.LogBytes = func(writes, valueBytes int) int { return recovery.BodyBytes(writes) + valueBytes }
	}
	needs.Scans = !i.Strategy.LocksInLog // ranges are looked at again when all is locked, and before anything is written
	return protocol.Protocol{Name: i.Name, Doc: i.Doc, Family: i.Family, Needs: needs, Options: options,
		Offers: offers, Optimistic: true, LocksLate: i.Late || i.Strategy.LateOnly,
		ByRPC: !i.Strategy.uses(OneSided, proto.PhaseCommit) && !i.Strategy.uses(Ring, proto.PhaseCommit),
		Simulation: protocol.Simulation{Steps: i.Strategy.steps(), Options: i.Simulated,
			Dimensions: append(dimensions, i.Dimensions...), Queues: i.Strategy.uses(Ring, proto.Phases()...),
			Atomics: i.Strategy.uses(OneSided, proto.PhaseLock), Undoes: i.Strategy.Undo},
		Mutations: i.mutations(),
		Holder:    onesided.HolderOf,
		New:       i.engine}
}

// sealDimension: records with seals and without, where there are no line words.
func sealDimension() protocol.Dimension {
	return protocol.Dimension{Name: "seals", Doc: "records have seals, if there are no line words",
		Values: []protocol.DimensionValue{{Name: "yes"},
			{Name: "no", Options: option.Settings{protocol.OptSeals: "false"}}},
		Drawn: []string{"yes", "yes", "no"}}
}

// logDimension: logs that are full again and again, in scenarios with backups.
func logDimension() protocol.Dimension {
	return protocol.Dimension{Name: "log", Doc: "logs at backups have room for few commits",
		Values: []protocol.DimensionValue{{Name: "large"},
			{Name: "small", Options: option.Settings{protocol.OptLogBytes: "8KiB"}}},
		Drawn: []string{"large", "small"}, Only: []string{"replicas", "gaps"}}
}

// lockOption is option "lock", and the dimension of it.
func (i Instance) lockOption() (option.List, []protocol.Dimension) {
	if i.Strategy.LateOnly {
		return nil, nil
	}
	values := []string{LockEarly, LockLate}
	if i.Late {
		values = []string{LockLate, LockEarly}
	}
	dimension := protocol.Dimension{Name: "lock", Doc: "phase in which records are locked that a transaction writes",
		Drawn: values}
	for _, v := range values {
		dimension.Values = append(dimension.Values, protocol.DimensionValue{Name: v,
			Options: option.Settings{OptLock: v}})
	}
	return option.List{option.Choice(OptLock, values,
		"`PHASE` in which records are locked that a transaction writes: execute, together with the "+
			"read, or commit")}, []protocol.Dimension{dimension}
}

func (i Instance) engine(env *protocol.Env) (proto.Engine, error) {
	s := i.Strategy
	if i.Tune != nil {
		i.Tune(&s, env.Options)
	}
	e, err := New(env, s)
	switch {
	case err != nil:
		return nil, err
	case i.Strategy.Regions:
		return regionEngine{recoverer{e}}, nil
	}
	return recoverer{e}, nil
}
