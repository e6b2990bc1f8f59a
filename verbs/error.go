package verbs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Conditions that callers tell apart with errors.Is.
var (
	// ErrClosed: the object was closed before or during the call.
	ErrClosed = errors.New("closed")
	// ErrCQOverrun: more could complete on a CQ than it holds; CQ and QPs are in error.
	ErrCQOverrun = errors.New("completion queue overrun")
	// ErrUnsupported: the provider does not offer this (see Caps).
	ErrUnsupported = errors.New("not supported by this provider")
	// ErrNotBuilt: the provider was left out of this binary.
	ErrNotBuilt = errors.New("provider not built into this binary")
	// ErrNoDevice: no device of that name, or none at all.
	ErrNoDevice = errors.New("no such device")
	// ErrNoGID: the port has no usable GID, or not at that index.
	ErrNoGID = errors.New("no usable GID")
	// ErrBadEndpoint: the bytes are no endpoint description of this version.
	ErrBadEndpoint = errors.New("bad endpoint description")
)

// Error is the one error type of the layer: which operation on which device met which errno or
// completion status, and what to do about it where the cause is well known.
type Error struct {
	Op        string        // the verb, as in "ibv_create_qp" or "post send"
	Device    string        // may be empty where the caller knows it
	QPN       uint32        // 0 = none
	Errno     syscall.Errno // 0 = none
	Status    WCStatus      // WCSuccess = none
	Raw       WCStatus      // the provider's own status where it differs from Status
	VendorErr uint32
	Detail    string // what exactly, in words; may be empty
	Hint      string // the next step; may be empty
	Err       error  // a sentinel or cause; may be nil
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Device != "" {
		b.WriteString(" on " + e.Device)
	}
	if e.QPN != 0 {
		fmt.Fprintf(&b, " (QP %d)", e.QPN)
	}
	part := func(s string) {
		if s != "" {
			b.WriteString(": " + s)
		}
	}
	part(e.Detail)
	if e.Status != WCSuccess {
		part(e.Status.String())
		if e.Raw != e.Status && e.Raw != WCSuccess {
			fmt.Fprintf(&b, " (provider: %s)", e.Raw)
		}
		if e.VendorErr != 0 {
			fmt.Fprintf(&b, " (vendor error %#x)", e.VendorErr)
		}
	}
	switch {
	case e.Errno != 0 && errors.Is(e.Err, e.Errno): // the cause says it in words
		part(unix.ErrnoName(e.Errno))
	case e.Errno != 0:
		part(unix.ErrnoName(e.Errno) + " (" + e.Errno.Error() + ")")
	}
	if e.Err != nil {
		part(e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches a syscall.Errno or a WCStatus against the one that the error carries.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case syscall.Errno:
		return e.Errno != 0 && e.Errno == t
	case WCStatus:
		return e.Status != WCSuccess && e.Status == t
	}
	return false
}
