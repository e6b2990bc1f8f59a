package occ

import "fmt"

// Phase of a transaction (Xenic §2.2.1). Truncate ends the order: at one copy of each record Log and
// Truncate have nobody to send to.
type Phase uint8

// Phases, in their order.
const (
	Execute Phase = iota + 1
	Lock
	Validate
	Log
	Commit
	Truncate
	phaseEnd
)

func (p Phase) String() string {
	return [...]string{"?", "execute", "lock", "validate", "log", "commit", "truncate", "?"}[min(p, phaseEnd)]
}

// Phases are all there are.
func Phases() (all []Phase) {
	for p := Execute; p < phaseEnd; p++ {
		all = append(all, p)
	}
	return all
}

// Set is which records of a transaction a phase is about.
type Set uint8

// Sets.
const (
	ReadSet  Set = 1 << iota // what it has seen and does not change
	WriteSet                 // what it changes
)

// Replica is which copies of these records.
type Replica uint8

// Replicas.
const (
	Primaries Replica = iota + 1
	Backups           // none, at one copy of each record
)

// Carrier is how a phase reaches the records of other nodes. Those of the own node are reached by the
// CPU, without messages.
type Carrier uint8

// Carriers.
const (
	// RPC is one request per node, which its CPU serves.
	RPC Carrier = iota + 1
)

func (c Carrier) String() string { return [...]string{"?", "rpc"}[min(c, RPC)] }

// Step is what a phase does in a strategy.
type Step struct {
	Records Set
	At      Replica
	By      Carrier
}

// Strategy says for each phase who, and how. A phase without a Step is left out.
type Strategy [phaseEnd]Step

// ByRPC is the strategy of which every phase is carried by RPC (Xenic §2.2.2, FaSST).
func ByRPC() (s Strategy) {
	s[Execute] = Step{ReadSet | WriteSet, Primaries, RPC}
	s[Lock] = Step{WriteSet, Primaries, RPC}
	s[Validate] = Step{ReadSet, Primaries, RPC}
	s[Log] = Step{WriteSet, Backups, RPC}
	s[Commit] = Step{WriteSet, Primaries, RPC}
	s[Truncate] = Step{WriteSet, Backups, RPC}
	return s
}

// check refuses a strategy that this package cannot carry out.
func (s *Strategy) check() error {
	want := ByRPC()
	for p := Execute; p < phaseEnd; p++ {
		if x := s[p]; x.Records != want[p].Records || x.At != want[p].At || x.By < RPC || x.By > RPC {
			return fmt.Errorf("phase %v of the strategy is about records %d at replicas %d by %v: there is no "+
				"such phase; begin with ByRPC and change carriers", p, x.Records, x.At, x.By)
		}
	}
	return nil
}

// Traffic is what a phase has sent to other nodes.
type Traffic struct {
	// Requests are messages; each has an answer, which is another one.
	Requests uint64
	// Trips are rounds in which at least one answer was waited for.
	Trips uint64
	// Bytes of the requests and of their answers, without headers of the transport.
	Bytes uint64
}
