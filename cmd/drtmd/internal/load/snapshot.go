package load

import (
	"reflect"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/proto/rtx"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// Snapshot is what a worker, or a sum of them, has counted so far.
type Snapshot struct {
	Counts workload.Counts
	Engine proto.Stats
	Fiber  fiber.Stats
	Memory MemoryStats
	// Roles are the threads of protocols that divide them, by what they do (protocol.Roles).
	Roles [protocol.RolesEnd]protocol.RoleStats
}

// noteRoles adds what a worker has done in its roles, and the NIC of its member.
func (s *Snapshot) noteRoles(w *node.Worker) {
	e, ok := w.Engine.(interface {
		RoleStats() (worker, nic protocol.RoleStats)
	})
	if !ok {
		return
	}
	worker, nic := e.RoleStats()
	s.Roles[w.Roles] = worker
	s.Roles[protocol.NICCore] = nic
}

// MemoryStats are of clients of a memory node: see rtx.Stats.
type MemoryStats struct {
	Repairs, Finished, Undone uint64
}

// memoryStats are those of an engine, if it has any.
func memoryStats(e proto.Engine) (m MemoryStats) {
	if x, ok := e.(interface{ Transactions() rtx.Stats }); ok {
		s := x.Transactions()
		m = MemoryStats{Repairs: s.Repairs, Finished: s.Finished, Undone: s.Undone}
	}
	return m
}

// add sums up.
func (s *Snapshot) add(o *Snapshot) { s.combine(o, func(a, b uint64) uint64 { return a + b }) }

// minus is what happened since an earlier snapshot.
func (s *Snapshot) minus(earlier *Snapshot) *Snapshot {
	d := *s
	d.combine(earlier, func(a, b uint64) uint64 { return a - b })
	return &d
}

// combine applies f to every counter, whichever there are.
func (s *Snapshot) combine(o *Snapshot, f func(a, b uint64) uint64) {
	combineAll(s, o, f)
}

// combineAll applies f to every counter of two structures of one type.
func combineAll[T any](a, b *T, f func(a, b uint64) uint64) {
	combine(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), f)
}

func combine(a, b reflect.Value, f func(a, b uint64) uint64) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			combine(a.Field(i), b.Field(i), f)
		}
	case reflect.Array:
		for i := range a.Len() {
			combine(a.Index(i), b.Index(i), f)
		}
	default:
		a.SetUint(f(a.Uint(), b.Uint()))
	}
}

// Outcomes of all types of transactions together.
func (s *Snapshot) Outcomes(o proto.Outcome) uint64 {
	n := uint64(0)
	for i := range s.Counts.Kinds {
		n += s.Counts.Kinds[i].Outcomes[o]
	}
	return n
}

// Aborted counts aborted attempts.
func (s *Snapshot) Aborted() uint64 {
	n := uint64(0)
	for _, a := range s.Engine.Aborts {
		n += a
	}
	return n
}

// Ended counts attempts that have ended, whichever way. What happened between two snapshots is counted
// by them, not by Engine.Begun: an attempt may begin before the first one and be aborted after it, and
// of those begun in between there can be fewer than of those aborted.
func (s *Snapshot) Ended() uint64 {
	e := &s.Engine
	return e.Committed + e.RolledBack + e.Unknown + s.Aborted()
}

// AbortRate is the aborted ones among the attempts that have ended, 0..1; 0 if none has.
func (s *Snapshot) AbortRate() float64 {
	n := s.Ended()
	if n == 0 {
		return 0
	}
	return float64(s.Aborted()) / float64(n)
}

// Bounds of latencies, in nanoseconds: 1 ns to 100 s, three digits.
const (
	longestNs = 100_000_000_000
	digits    = 3
)

// histograms are latencies of committed transactions, by kind; [0] is unused.
type histograms []*hdrhistogram.Histogram

func newHistograms(kinds int) histograms {
	h := make(histograms, kinds+1)
	for i := range h {
		h[i] = hdrhistogram.New(1, longestNs, digits)
	}
	return h
}

func (h histograms) reset() {
	for _, x := range h {
		x.Reset()
	}
}

func (h histograms) merge(o histograms) {
	for i, x := range h {
		x.Merge(o[i])
	}
}
