//go:build linux && amd64

package fabric

import (
	"errors"
	"time"
)

var errSkeleton = errors.New("not filled in yet")

// Options says which fabric to join.
type Options struct {
	// Dir is the run directory, made with mode 0700 if missing (its parent must exist); empty
	// means DefaultDir. An existing one must be private to this user (0700).
	Dir string
	// HugeTLB allows memory from the preallocated hugetlb pool, made here or imported.
	HugeTLB bool
}

// ProcID names a process on the fabric for ever: slots are used again, incarnations are not.
type ProcID struct {
	Slot        uint16 // index into the slots table, < MaxProcs
	Incarnation uint64 // random, never 0
}

// Fabric is one process's membership.
type Fabric struct{}

// Open joins the fabric and reclaims the unnamed remains of killed processes.
func Open(o Options) (*Fabric, error) { return nil, errSkeleton }

// Close leaves; idempotent.
func (f *Fabric) Close() error { return errSkeleton }

// Self names this membership.
func (f *Fabric) Self() ProcID { return ProcID{} }

// Alive reports whether p still holds its slot lock.
func (f *Fabric) Alive(p ProcID) bool { return false }

// Peers lists the live members, this one included, by slot.
func (f *Fabric) Peers() []ProcID { return nil }

// Watch returns a channel that is closed when p has died or f is closed.
func (f *Fabric) Watch(p ProcID) <-chan struct{} { return nil }

// SegmentOptions describes memory to make.
type SegmentOptions struct {
	Size int    // bytes, > 0
	Keep string // name of kept memory; empty for anonymous
	Huge bool   // ask for huge pages
	Heap bool   // race builds: Go heap, 64-byte aligned, not exportable to other processes
}

// Segment is a piece of shareable memory; the maker or importer owns one reference.
type Segment struct{}

// NewSegment makes memory, zeroed unless it reopens kept memory.
func (f *Fabric) NewSegment(o SegmentOptions) (*Segment, error) { return nil, errSkeleton }

// Bytes is the memory: Size bytes, at least 64-byte aligned, valid until Close.
func (s *Segment) Bytes() []byte { return nil }

// Size is the length in bytes.
func (s *Segment) Size() int { return 0 }

// ID is unique among the segments its maker made; imported ones carry the id they were fetched by.
func (s *Segment) ID() uint64 { return 0 }

// Kept is the name of kept memory, empty for anonymous memory.
func (s *Segment) Kept() string { return "" }

// Close gives the reference back; idempotent.
func (s *Segment) Close() error { return errSkeleton }

// RemoveKept deletes kept memory that no live process has open.
func (f *Fabric) RemoveKept(name string) error { return errSkeleton }

// ListKept lists the names of kept memory, sorted.
func (f *Fabric) ListKept() ([]string, error) { return nil, errSkeleton }

// Export lets peers fetch s as id; the export holds a reference of its own.
func (f *Fabric) Export(id uint64, s *Segment) {}

// Unexport ends Export; mappings that peers have stay valid.
func (f *Fabric) Unexport(id uint64) {}

// Import maps segment id of p; of this very Fabric it returns the same mapping.
func (f *Fabric) Import(p ProcID, id uint64) (*Segment, error) { return nil, errSkeleton }

// Handle registers the handler for calls of kind; nil removes it.
func (f *Fabric) Handle(kind uint8, h func(from ProcID, req []byte) ([]byte, error)) {}

// Call sends req to p's handler for kind and waits for the answer; timeout 0 means DefaultTimeout.
func (f *Fabric) Call(p ProcID, kind uint8, req []byte, timeout time.Duration) ([]byte, error) {
	return nil, errSkeleton
}

// EventFD is an eventfd that wakes a sleeper, here or in a peer.
type EventFD struct{}

// NewEventFD makes one, non-blocking.
func NewEventFD() (*EventFD, error) { return nil, errSkeleton }

// Signal wakes the sleeper; never blocks.
func (e *EventFD) Signal() error { return errSkeleton }

// Drain takes back all signals so far and reports whether there were any.
func (e *EventFD) Drain() bool { return false }

// Wait sleeps in Go's poller until a signal or the timeout, and drains; negative: no limit.
func (e *EventFD) Wait(timeout time.Duration) (bool, error) { return false, errSkeleton }

// FD is the descriptor, for epoll calls of a locked thread.
func (e *EventFD) FD() int { return -1 }

// Close is idempotent.
func (e *EventFD) Close() error { return errSkeleton }

// ExportFD lets peers fetch e as id (ids of events and of segments are apart).
func (f *Fabric) ExportFD(id uint64, e *EventFD) {}

// UnexportFD ends ExportFD.
func (f *Fabric) UnexportFD(id uint64) {}

// ImportFD fetches event id of p, for Signal only.
func (f *Fabric) ImportFD(p ProcID, id uint64) (*EventFD, error) { return nil, errSkeleton }
