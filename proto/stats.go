package proto

// Stats of an engine.
type Stats struct {
	Begun      uint64
	Committed  uint64
	RolledBack uint64
	Unknown    uint64
	Aborts     [ReasonEnd]uint64 // attempts, by reason
	Fallbacks  uint64            // attempts on a fallback path
	RegionRuns uint64            // regions begun, where a protocol has them
	LeaseWaits uint64            // waits for a lease to expire
	CacheHits  uint64            // of remote lookups that needed no READ
	Lookups    uint64            // of remote records
	// Of hardware that detects conflicts with filters: comparisons of an address with one filter, those that were positive
	// by mistake, addresses that were compared with all filters at once, and transactions squashed because a line that they
	// had written left the cache.
	Checks, FalseConflicts, Compared, Evicted uint64
	// Look-ups of records of the own machine that were made ahead, and the batches in which they were (Dandelion §6).
	LookAheads, LookedAhead uint64
	// FallbackKinds are Fallbacks by Decl.Kind, where a protocol tells them apart; the last one has all kinds from it on.
	FallbackKinds [StatsKinds]FallbackStats
	// Phases is the traffic of each phase, of attempts that were aborted too.
	Phases [PhaseEnd]Traffic
}

// StatsKinds bounds the kinds of Stats.FallbackKinds.
const StatsKinds = 8

// FallbackStats are attempts on a fallback path, those among them that an abort for capacity led to, and those that have
// committed.
type FallbackStats struct{ All, Capacity, Committed uint64 }

// FellBack counts an attempt on a fallback path.
func (s *Stats) FellBack(kind uint8, capacity bool) {
	s.Fallbacks++
	k := &s.FallbackKinds[min(kind, StatsKinds-1)]
	if k.All++; capacity {
		k.Capacity++
	}
}

// CommittedFallen counts an attempt on a fallback path that has committed.
func (s *Stats) CommittedFallen(kind uint8) { s.FallbackKinds[min(kind, StatsKinds-1)].Committed++ }
