package farm

import (
	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

// Options: the optimisations of HADES §III. All but the third are on by default.
const (
	OptBatchLocks   = "batch-locks"
	OptSerialUnlock = "serial-unlock"
	OptAwaitUnlock  = "await-unlock"
	OptLockReads    = "lock-reads"
	// OptSoftware is the CPU time of the simulator.
	OptSoftware = "software"
)

// strategy without options.
func strategy() occ.Strategy {
	s := occ.ByRPC().With(occ.OneSided, proto.PhaseExecute, proto.PhaseValidate, proto.PhaseLog).
		With(occ.Ring, proto.PhaseLock, proto.PhaseCommit, proto.PhaseTruncate)
	s.LateOnly = true
	return s
}

// Values of OptSoftware.
const (
	SoftwareLean  = "lean"
	SoftwareHADES = "hades"
)

// tune is what the options change.
func tune(s *occ.Strategy, o option.Values) {
	s.Single, s.Serial = !o.Bool(OptBatchLocks), o.Bool(OptSerialUnlock)
	s.Unawaited = !o.Bool(OptAwaitUnlock)
	if o.Choice(OptSoftware) == SoftwareHADES {
		s.Software = protocol.HADESSoftware()
	}
	if o.Bool(OptLockReads) {
		s.Steps[proto.PhaseLock].Records = occ.ReadSet | occ.WriteSet
	}
}

// Protocol describes FaRM.
func Protocol() protocol.Protocol {
	return occ.Instance{Name: "farm", Strategy: strategy(), Tune: tune,
		Doc: "FaRM: reads and validation by READ of hopscotch neighbourhoods, locks and commit by ring messages " +
			"(HADES §II)",
		Needs: protocol.Needs{Layout: layout.KindLineVersions, Index: layout.HopscotchInline, CPULocks: true},
		Options: option.List{
			protocol.SlotLoad(),
			option.Bool(OptBatchLocks, true,
				"send the records of a node that are locked or unlocked in one message, instead of one message each"),
			option.Bool(OptSerialUnlock, false,
				"write what a transaction changes, wait for that, and then unlock, instead of both in one message"),
			option.Bool(OptAwaitUnlock, true,
				"wait for the unlocking, although the update is in the logs of all backups"),
			option.Choice(OptSoftware, []string{SoftwareLean, SoftwareHADES}, "`WHICH` CPU time the simulator charges for a "+
				"record: lean (10 to 40 ns in a phase, assumed), hades (besides what HADES Figure 3 was calibrated to)"),
			option.Bool(OptLockReads, false,
				"lock what a transaction only reads, instead of comparing its version at the commit")},
		Dimensions: []protocol.Dimension{
			{Name: "optimisations", Doc: "which optimisations of HADES §III are on: all, or none",
				Values: []protocol.DimensionValue{{Name: "all", Options: option.Settings{OptAwaitUnlock: "false"}},
					{Name: "none", Options: option.Settings{OptBatchLocks: "false", OptSerialUnlock: "true",
						OptAwaitUnlock: "true", OptLockReads: "true"}}},
				Drawn: []string{"all", "all", "all", "none"}, Short: "all"},
			{Name: "rings", Doc: "rings that have room for many messages, or for few",
				Values: []protocol.DimensionValue{{Name: "large"},
					{Name: "small", Options: option.Settings{occ.OptRingBytes: "2KiB"}}},
				Drawn: []string{"large", "small"}, Short: "small"},
			{Name: "slots", Doc: "hopscotch tables with room for all records in neighbourhoods; with room that records " +
				"are moved for; or with most records in overflow",
				Values: []protocol.DimensionValue{{Name: "enough"},
					{Name: "scarce", Options: option.Settings{protocol.OptSlotLoad: "300"}},
					{Name: "few", Options: option.Settings{protocol.OptSlotLoad: "1000"}}},
				Drawn: []string{"enough", "scarce", "scarce", "few"}, Short: "few"}},
	}.Protocol()
}
