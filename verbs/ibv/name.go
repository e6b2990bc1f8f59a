package ibv

// providerName is what endpoints and listings call this provider.
const providerName = "ibv"

// Options of NewWith.
type Options struct {
	// KeepDir is the folder of kept memory (verbs.MROptions.Keep), on tmpfs, hugetlbfs or DAX; "": devices
	// keep none.
	KeepDir string
}
