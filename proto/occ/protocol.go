package occ

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
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
	Strategy  Strategy
}

// Protocol describes an instance.
func (i Instance) Protocol() protocol.Protocol {
	return protocol.Protocol{Name: i.Name, Doc: i.Doc,
		Needs: protocol.Needs{Early: true}, // what is owed to a machine that restarts is asked of its engine
		Options: option.List{
			option.Choice(OptLock, []string{LockEarly, LockLate},
				"`PHASE` in which records are locked that a transaction writes: execute, together with the "+
					"read, or commit"),
			protocol.OrphanAfter()},
		Offers:     proto.OfferDebts | proto.OfferOrphans,
		Optimistic: true, ByRPC: true,
		Simulation: protocol.Simulation{Steps: steps(), Dimensions: []protocol.Dimension{{
			Name: "lock", Doc: "phase in which records are locked that a transaction writes",
			Values: []protocol.DimensionValue{{Name: LockEarly},
				{Name: LockLate, Options: option.Settings{OptLock: LockLate}}},
			Drawn: []string{LockEarly, LockLate}}}},
		Mutations: Mutations().List(""),
		Holder:    onesided.HolderOf,
		New:       func(e *protocol.Env) (proto.Engine, error) { return protocol.Engine(New(e, i.Strategy)) }}
}
