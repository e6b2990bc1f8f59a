package protocol

import (
	"math"
	"time"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/store/dlht"
	"drtmd/store/hopscotch"
	"drtmd/store/robinhood"
)

// OptOrphanAfter is an option of every protocol that calls locks orphaned (proto.Orphan).
const OptOrphanAfter = "orphan-after"

// OrphanAfter is that option.
func OrphanAfter() option.Option {
	return option.Duration(OptOrphanAfter, proto.DefaultOrphanAfter, time.Microsecond, math.MaxInt64,
		"`TIME` for which a transaction has to meet one lock before the lock counts as orphaned, if its "+
			"holder is dead")
}

// OptChopped is an option of every protocol that runs transactions in pieces.
const OptChopped = "chopped"

// OptLogBytes is an option of every protocol that needs logs.
const OptLogBytes = "log-bytes"

const (
	defaultLogBytes = 256 << 10
	minLogBytes     = 4 << 10
	maxLogBytes     = 1 << 30
)

// LogBytes is that option.
func LogBytes() option.Option {
	return option.Size(OptLogBytes, defaultLogBytes, minLogBytes, maxLogBytes,
		"`SIZE` of each log: with replicas, a node keeps one for each worker of the other nodes").Because(
		"a log has room for several commits, and each node keeps one for each worker of the others")
}

// OptDisplacement is an option of protocols with Robinhood tables.
const OptDisplacement = "displacement-limit"

// Displacement is that option.
func Displacement() option.Option {
	return option.Int(OptDisplacement, robinhood.DefaultLimit, 1, robinhood.NoLimit,
		"`N` slots beyond its home that a record of a Robinhood table may stand (D_m): the rest is in overflow blocks")
}

// OptSlotLoad is an option of protocols with hopscotch tables.
const OptSlotLoad = "slot-load"

// SlotLoad is that option.
func SlotLoad() option.Option {
	return option.Int(OptSlotLoad, hopscotch.SlotLoad, 10, 1000,
		"`PERCENT` of the slots of a hopscotch table that are taken when it has as many records as it has room "+
			"for; the more, the less memory, and the more records in overflow blocks, which take another READ")
}

// OptSeals is an option of protocols whose records are READ and CPUs lock.
const OptSeals = "seals"

// Seals is that option.
func Seals() option.Option {
	return option.Bool(OptSeals, true,
		"keep a seal in each record on devices without line words, so that one READ proves a copy of it (layout.Sealed), "+
			"and not four")
}

// OptIndexKeys is an option of protocols with tables of DLHT.
const OptIndexKeys = "index-keys"

// IndexKeys is that option.
func IndexKeys() option.Option {
	return option.Int(OptIndexKeys, 0, 0, dlht.MaxKeys,
		"`N` records that the index of a table (DLHT) has room for before it grows for the first time; 0: all that the "+
			"table has room for, so that it never grows")
}
