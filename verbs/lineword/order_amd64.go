//go:build amd64 && !race

package lineword

// storeRelease stores v after everything that the caller stored before.
//
//go:noescape
func storeRelease(p *uint64, v uint64)

// storeRelease2 stores v to p, then w to q.
//
//go:noescape
func storeRelease2(p *uint64, v uint64, q *uint64, w uint64)

// readLine looks at *p, copies 64 bytes from src to dst, and looks at *p again.
//
//go:noescape
func readLine(dst, src *[LineBytes]byte, p *uint64) (before, after uint64)

// CopyLine copies a whole line. It is not atomic: hold the line's lock.
//
//go:noescape
func CopyLine(dst, src *[LineBytes]byte)

// Pause tells the processor that the caller spins.
func Pause()

// PrefetchWrite asks for a line to be brought here for writing.
//
//go:noescape
func PrefetchWrite(p *uint64)

// Prefetch asks for a line to be brought here for reading.
//
//go:noescape
func Prefetch(p *uint64)

// Prefetch2 is Prefetch of two lines. Calls into assembly are not inlined: one costs less than two.
//
//go:noescape
func Prefetch2(p, q *uint64)
