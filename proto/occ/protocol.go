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
	// Family is the instance of which this one is a variant; "" is none.
	Family   string
	Strategy Strategy
	// Late: records are locked in LOCK unless option "lock" says otherwise.
	Late bool
}

// Protocol describes an instance.
func (i Instance) Protocol() protocol.Protocol {
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
	offers := proto.OfferDebts | proto.OfferOrphans | proto.OfferTruncations
	if i.Strategy.Regions {
		offers |= proto.OfferRegions
	}
	return protocol.Protocol{Name: i.Name, Doc: i.Doc, Family: i.Family,
		Needs: protocol.Needs{Early: true, Replicates: true, Logs: true}, // what is owed to a machine that restarts is asked of its engine
		Options: option.List{
			option.Choice(OptLock, values,
				"`PHASE` in which records are locked that a transaction writes: execute, together with the "+
					"read, or commit"),
			protocol.OrphanAfter(), protocol.LogBytes()},
		Offers:     offers,
		Optimistic: true, LocksLate: i.Late, ByRPC: !i.Strategy.uses(OneSided, proto.PhaseCommit),
		Simulation: protocol.Simulation{Steps: i.Strategy.steps(), Dimensions: []protocol.Dimension{dimension}},
		Mutations:  i.Strategy.mutations(),
		Holder:     onesided.HolderOf,
		New:        i.engine}
}

func (i Instance) engine(env *protocol.Env) (proto.Engine, error) {
	e, err := New(env, i.Strategy)
	if err == nil && i.Strategy.Regions {
		return regionEngine{e}, nil
	}
	return protocol.Engine(e, err)
}
