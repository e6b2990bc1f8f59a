package proto

import (
	"errors"
	"strings"
)

// Outcome of a transaction.
type Outcome uint8

const (
	Committed  Outcome = iota + 1
	RolledBack         // by the program's own decision, on a view that was valid
	Aborted            // by the protocol, and given up
	Unknown            // the coordinator cannot tell: a write may have happened
	OutcomeEnd         // one past the last
)

func (o Outcome) String() string {
	return name([]string{"?", "committed", "rolled back", "aborted", "unknown"}, int(o))
}

// Reason is why a protocol aborted one attempt of a transaction.
type Reason uint8

const (
	ReasonLocked      Reason = iota + 1 // a record was write-locked by another
	ReasonLeased                        // a record to be written had an unexpired lease
	ReasonLease                         // own leases could not be confirmed in time
	ReasonValidation                    // something that was read has changed
	ReasonConflict                      // the region met a conflicting access
	ReasonCapacity                      // the region did not fit
	ReasonSystem                        // the region met what hardware would not run in it
	ReasonStale                         // a cached location was out of date
	ReasonPlan                          // a reconnaissance no longer holds
	ReasonMoved                         // the members have changed, or a shard is not served yet after that
	ReasonLogFull                       // the worker's log has no room: transactions before wait for a machine
	ReasonUnreachable                   // a node did not answer
	ReasonOrphaned                      // a record stays locked by a node that is gone: see Orphan
	ReasonFull                          // a table has no room
	ReasonLost                          // a shard has lost all its replicas
	ReasonEnd                           // one past the last
)

func (r Reason) String() string {
	return name([]string{"?", "locked", "leased", "lease expired", "validation", "htm conflict",
		"htm capacity", "htm system", "stale location", "plan outdated", "view changed", "log full", "unreachable",
		"orphaned lock", "table full", "shard lost"}, int(r))
}

// Retry reports whether another attempt may succeed.
func (r Reason) Retry() bool { return r < ReasonUnreachable }

// name is element i of names.
func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return names[0]
}

// Abort is the error with which the operations of a transaction say that this attempt is over.
// The values are made once: ask with errors.As or AbortReason.
type Abort struct {
	Reason Reason
	Cause  error // what made it so, with ReasonUnreachable; nil: nothing more is known
}

func (a *Abort) Error() string {
	if a.Cause != nil {
		return "transaction aborted: " + a.Reason.String() + ": " + a.Cause.Error()
	}
	return "transaction aborted: " + a.Reason.String()
}

// Is takes every Abort with a reason for the one that Aborting gives.
func (a *Abort) Is(target error) bool { return target == error(aborts[a.Reason]) }

// Unwrap gives the cause.
func (a *Abort) Unwrap() error { return a.Cause }

// aborts are the values of Abort.
var aborts = func() (a [ReasonEnd]*Abort) {
	for r := range a {
		a[r] = &Abort{Reason: Reason(r)}
	}
	return a
}()

// Aborting is the Abort of a reason.
func Aborting(r Reason) error { return aborts[r] }

// AbortReason is the reason of an error that is an Abort; 0 if it is none.
func AbortReason(err error) Reason {
	if err == nil || err == ErrRollback {
		return 0
	}
	if a, ok := err.(*Abort); ok {
		return a.Reason
	}
	return wrappedReason(err)
}

// wrappedReason is a function of its own because it allocates.
func wrappedReason(err error) Reason {
	var a *Abort
	if errors.As(err, &a) {
		return a.Reason
	}
	return 0
}

var (
	// ErrRollback is what a program returns to roll its transaction back.
	ErrRollback = errors.New("rolled back by the program")
	// ErrNotFound: no record has the key. The absence is protected like a value.
	ErrNotFound = errors.New("no such record")
	// ErrExists: Insert found a record.
	ErrExists = errors.New("record exists")
	// ErrUnsupported: the protocol or its store does not offer this.
	ErrUnsupported = errors.New("not supported by this protocol")
	// ErrUndeclared: an access that the Decl does not have, where the protocol needs it there.
	ErrUndeclared = errors.New("access was not declared")
	// ErrValueSize: a value, or the buffer for one, does not have its table's size.
	ErrValueSize = errors.New("value does not have the size of its table")
	// ErrUnknownTable: no table has this id.
	ErrUnknownTable = errors.New("no such table")
	// ErrPlacement: the Placement names a node that the cluster does not have.
	ErrPlacement = errors.New("placement outside the cluster")
	// ErrKey: the key is 2^64-1.
	ErrKey = errors.New("this key is reserved: use another")
	// ErrUnknownOutcome: the transaction may or may not have taken effect.
	ErrUnknownOutcome = errors.New("outcome unknown")
)

// Names joins what a list of fmt.Stringers says, for messages that list what there is.
func Names[T interface{ String() string }](list []T) string {
	var s []string
	for _, e := range list {
		s = append(s, e.String())
	}
	return strings.Join(s, ", ")
}
