package verbs

import "io"

// KeptMemory is a Provider that can list and delete what its devices keep (MROptions.Keep).
type KeptMemory interface {
	// Kept lists the names of kept memory. Some may be in use.
	Kept() ([]string, error)
	// RemoveKept deletes kept memory. It refuses memory that a process has open.
	RemoveKept(name string) error
}

// KeptCopier is a KeptMemory whose content can be taken elsewhere, and put back: byte for byte, with all that the
// provider has beside the memory.
type KeptCopier interface {
	KeptMemory
	// CopyKept writes kept memory that no process has open to w.
	CopyKept(name string, w io.Writer) error
	// PutKept makes kept memory of size bytes, as CopyKept wrote them. If r has fewer, or fails, nothing is made. It
	// refuses a name that is taken.
	PutKept(name string, size int64, r io.Reader) error
}
