package drtm

import "drtmd/htm"

// Steps are the steps that the engine marks for the simulator's nemesis, those of its regions
// included.
func Steps() []string {
	return []string{
		"drtm: before lookup", "drtm: before ensure", "drtm: before lock", "drtm: after lock",
		"drtm: before XBEGIN", "drtm: before access", "drtm: between lines", "drtm: before reclaim",
		"drtm: after commit", "drtm: before release", "drtm: after release",
		"drtm: abort", "drtm: finish", "drtm: fallback", "drtm: fallback locked one",
		"drtm: fallback confirmed", "drtm: between rounds", "drtm: after second round",
		"drtm: confirmed before XEND", "drtm: unlocked before write-back", // by mutations
		htm.StepListed, htm.StepLocked, htm.StepConfirmed, htm.StepValidated, htm.StepCommitted,
		htm.StepStored, htm.StepPublished}
}
