package verbs

// KeptMemory is a Provider that can list and delete what its devices keep (MROptions.Keep).
type KeptMemory interface {
	// Kept lists the names of kept memory. Some may be in use.
	Kept() ([]string, error)
	// RemoveKept deletes kept memory. It refuses memory that a process has open.
	RemoveKept(name string) error
}
