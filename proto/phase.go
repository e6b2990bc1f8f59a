package proto

// Phase of a transaction whose commit goes through phases (Xenic §2.2.1).
type Phase uint8

// Phases, in their order. An engine that has no such phases counts nothing by them.
const (
	PhaseExecute  Phase = iota + 1 // reads, and locks where locks are taken early
	PhaseLock                      // what is written, and is not locked yet
	PhaseValidate                  // what was read, and is not locked
	PhaseLog                       // the update, at all backups
	PhaseCommit                    // value, version, unlock
	PhaseTruncate                  // backups drop what they have applied
	PhaseEnd                       // one past the last
)

func (p Phase) String() string {
	return name([]string{"?", "execute", "lock", "validate", "log", "commit", "truncate"}, int(p))
}

// Phases are all there are.
func Phases() (all []Phase) {
	for p := PhaseExecute; p < PhaseEnd; p++ {
		all = append(all, p)
	}
	return all
}

// Traffic is what a phase has sent to other nodes.
type Traffic struct {
	// Requests are messages and one-sided operations. Each has an answer or a completion, which comes as
	// another message.
	Requests uint64
	// Records are those that the messages among the requests are about: so many messages would they be if each record
	// had its own. One-sided operations count none. 0 unless the engine was asked for it (RecordCounter).
	Records uint64
	// Trips are rounds in which at least one answer was waited for: two message delays each.
	Trips uint64
	// Bytes of the requests and of their answers, without headers of the transport: of a READ and a WRITE
	// what is copied, of an atomic its two operands and the old value.
	Bytes uint64
}

// RecordCounter is an engine that can count Traffic.Records. It takes time for each message, so nobody does it unasked.
type RecordCounter interface {
	// CountRecords has it count from now on. The engine's worker calls it.
	CountRecords()
}

// Add counts another's traffic too.
func (t *Traffic) Add(o Traffic) {
	t.Requests += o.Requests
	t.Records += o.Records
	t.Trips += o.Trips
	t.Bytes += o.Bytes
}
