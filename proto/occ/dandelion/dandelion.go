package dandelion

import (
	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

// OptTold is the option of when the client is told that its transaction is committed (§4.2.2).
const OptTold = "told"

// Options of Dandelion's optimisations (§8.1).
const (
	OptGather      = "hashtable-batching"
	OptBackupReads = "backup-reads"
)

// Values of OptTold.
const (
	ToldSent         = "sent"         // after the unlock messages were sent
	ToldAcknowledged = "acknowledged" // after they were acknowledged
)

// family: without replicas Dnl-4 is FaSST that locks at the commit.
const family = "fasst"

// Dnl4 describes Dnl-4.
func Dnl4() protocol.Protocol {
	return instance("dnl4", "Dandelion's Dnl-4: locks, validates, replicates and unlocks, by RPC; backups are read "+
		"(Table 4)", occ.ByRPC(), ToldAcknowledged)
}

// Dnl2 describes Dnl-2.
func Dnl2() protocol.Protocol {
	s := occ.ByRPC()
	s.Steps[proto.PhaseLock].Records = occ.ReadSet | occ.WriteSet
	s.LocksAll, s.LogsPrimary = true, true
	return instance("dnl2", "Dandelion's Dnl-2: locks all records, replicates to all of their nodes, and unlocks, by RPC "+
		"(Table 4)", s, ToldSent)
}

// Dnl1 describes Dnl-1.
func Dnl1() protocol.Protocol {
	s := occ.ByRPC()
	s.Steps[proto.PhaseLock].Records = occ.ReadSet | occ.WriteSet
	s.LocksAll, s.LogsPrimary, s.LocksInLog = true, true, true
	return instance("dnl1", "Dandelion's Dnl-1: locks and logs at all replicas in one round trip, and unlocks, by RPC "+
		"(Table 4)", s, ToldSent)
}

// instance is a protocol of Table 4, in which the client is usually told at some time.
func instance(name, doc string, s occ.Strategy, told string) protocol.Protocol {
	s.LateOnly, s.Undo, s.Flows = true, true, true
	times := []string{told, ToldSent}
	if told == ToldSent {
		times[1] = ToldAcknowledged
	}
	return occ.Instance{Name: name, Doc: doc, Family: family, Strategy: s,
		Needs: protocol.Needs{Index: layout.DLHT, CPULocks: true},
		Options: option.List{protocol.IndexKeys(), option.Choice(OptTold, times,
			"`WHEN` the client is told of a commit: when the unlock messages are sent, or acknowledged"),
			option.Bool(OptGather, false, "look records up in batches: those of all transactions of a pass, and those of the "+
				"messages of a datagram"),
			option.Bool(OptBackupReads, true, "read records at the own machine's backups")},
		Tune: func(s *occ.Strategy, o option.Values) {
			s.Unawaited = o.Choice(OptTold) == ToldSent
			s.Gathers, s.RemoteBackups = o.Bool(OptGather), !o.Bool(OptBackupReads)
		},
		Dimensions: []protocol.Dimension{{Name: "index", Doc: "an index with room for all records, or one that grows",
			Values: []protocol.DimensionValue{{Name: "large"},
				{Name: "small", Options: option.Settings{protocol.OptIndexKeys: "1"}}},
			Drawn: []string{"large", "small"}, Only: []string{"smallbank", "micro", "replicas", "gaps", "recovery"}},
			{Name: OptGather, Doc: "look-ups one by one, or in batches", Drawn: []string{"no", "yes"},
				Only: []string{"smallbank", "micro", "replicas", "gaps", "recovery"},
				Values: []protocol.DimensionValue{{Name: "no"},
					{Name: "yes", Options: option.Settings{OptGather: "true"}}}},
			{Name: OptTold, Doc: "when the client is told of a commit", Drawn: times,
				Values: []protocol.DimensionValue{
					{Name: times[0], Options: option.Settings{OptTold: times[0]}},
					{Name: times[1], Options: option.Settings{OptTold: times[1]}}}}},
	}.Protocol()
}
