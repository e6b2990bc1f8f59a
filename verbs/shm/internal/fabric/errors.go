//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
)

// Reasons that callers branch on; every error of this package is an *Error that wraps one of
// these or an errno.
var (
	ErrClosed      = errors.New("fabric is closed")
	ErrPeerDead    = errors.New("peer process is dead")
	ErrPeerTimeout = errors.New("peer process does not answer")
	ErrHungUp      = errors.New("peer process closed the connection without an answer")
	ErrNoSegment   = errors.New("peer exports nothing under this id")
	ErrBadSegment  = errors.New("peer sent memory that is not safe to map")
	ErrBadFrame    = errors.New("malformed frame")
	ErrTooBig      = errors.New("message is over the frame limit")
	ErrNoHandler   = errors.New("peer has no handler for this kind of call")
	ErrFull        = errors.New("every process slot is taken")
	ErrBusy        = errors.New("run directory is locked by another process")
	ErrUnsafeDir   = errors.New("run directory is not private to this user")
	ErrCorrupt     = errors.New("run directory holds a damaged slots file")
	ErrSize        = errors.New("bad segment size")
	ErrNoMemory    = errors.New("not enough memory")
	ErrBadName     = errors.New("bad name for kept memory")
	ErrKeptBusy    = errors.New("kept memory is open in a live process")
	ErrKeptSize    = errors.New("kept memory has another size")
	ErrNotKept     = errors.New("no kept memory of this name")
	ErrUnsafeFile  = errors.New("not a regular file that is private to this user")
)

// Error says which operation on what did not work, why, and what to do next.
type Error struct {
	Op   string // the operation, for example "import segment"
	What string // path, name or peer; may be empty
	Err  error  // one of the Err values above, an errno, or what wraps them
	Hint string // the next step; may be empty
}

// Error gives one line: operation, object, reason and, in parentheses, the hint.
func (e *Error) Error() string {
	s := e.Op
	if e.What != "" {
		s += " " + e.What
	}
	s += ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap makes the reason reachable by errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// RemoteError is the error that a handler in another process returned: its text only, since types
// do not travel.
type RemoteError struct {
	Kind uint8 // the kind of call
	Text string
}

// Error gives the handler's text with the kind of call before it.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("handler of call kind %d: %s", e.Kind, e.Text)
}
