package rpc

import (
	"errors"
	"fmt"
)

// How a call or Connect can end, beside RemoteError and the errors of waiting (package fiber).
// After any of these a request was executed once or not at all.
var (
	// ErrPeerGone: the peer showed no sign of life for Config.PeerTimeout.
	ErrPeerGone = errors.New("peer gone")
	// ErrPeerReset: the peer restarted, or has forgotten the session.
	ErrPeerReset = errors.New("session reset by peer")
	// ErrRefused: the peer has no room for another session.
	ErrRefused = errors.New("session refused")
	// ErrUnanswered: the peer is alive but did not react to this request.
	ErrUnanswered = errors.New("request unanswered")
	// ErrTooLong: a request or response is longer than the peer or the buffer takes.
	ErrTooLong = errors.New("message too long")
	// ErrFull: this port has no room for another session.
	ErrFull = errors.New("port has no room for another session")
	// ErrClosed: the session or port was closed here.
	ErrClosed = errors.New("closed")
	// ErrBroken: the port's queue pair failed.
	ErrBroken = errors.New("queue pair of the port failed")
	// ErrEpoch: the epoch was raised here after the request was sent, or the peer has reached a higher
	// one and takes nothing of this port's any more.
	ErrEpoch = errors.New("request of an older epoch")
	// ErrNoHandler is what a RemoteError is when the peer has no handler for the type.
	ErrNoHandler = errors.New("no handler for this type")
)

// RemoteError is an error of the peer's handler. The request was executed, unless it is
// ErrNoHandler.
type RemoteError struct {
	Type      Type
	Text      string // at most 200 bytes of the handler's error
	noHandler bool
}

func (e *RemoteError) Error() string { return fmt.Sprintf("handler %d: %s", e.Type, e.Text) }

// Is matches ErrNoHandler.
func (e *RemoteError) Is(target error) bool { return target == ErrNoHandler && e.noHandler }

// maxErrorBytes of a handler's error travel.
const maxErrorBytes = 200

// hint adds the next step.
func hint(err error, next string) error { return fmt.Errorf("%w; %s", err, next) }
