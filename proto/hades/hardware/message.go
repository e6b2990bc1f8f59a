package hardware

import (
	"fmt"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// NodeID numbers the nodes of a cluster, from 0.
type NodeID int32

// Data is the content of a line.
type Data [64]byte

// ID is an attempt of a transaction: no two attempts of a node have the same number.
type ID struct {
	Node    NodeID
	TX      directory.TX
	Attempt uint32
}

// An Attempt has the life of its node in its highest bits.
const (
	lifeShift = 26
	lifeMask  = 1<<(32-lifeShift) - 1
)

// Bounds of what an ID has room for.
const (
	// MaxLife of a node: Config.Check refuses a later one, since Fence compares lives.
	MaxLife = lifeMask
	// MaxAttempts of a life: after them no transaction begins (Node.Spent).
	MaxAttempts = 1<<lifeShift - 1
)

// Life is that of the node.
func (id ID) Life() uint32 { return id.Attempt >> lifeShift }

// Number is the attempt's in the life of its node, from 1.
func (id ID) Number() uint32 { return id.Attempt & MaxAttempts }

// Kind of a message.
type Kind uint8

const (
	Read           Kind = iota + 1 // lines to be read
	WriteFetch                     // lines that will be written in part
	Fetched                        // the answer: lines with their values
	IntendToCommit                 // lines written: lock and compare
	Ack                            // done
	Validation                     // lines with their new values: the transaction is committed
	Squash                         // another one has committed a conflict
	Abort                          // the transaction is over without an effect
	Reserve                        // lines that will be read and written: lock them before (§VI)
	Reserved                       // done
	Persist                        // a record of what the transaction writes: keep it
	Truncate                       // the transaction is committed everywhere: apply the record
	Done                           // with a Persist, a Truncate, or the Validation of a transaction with replicas
	Mail                           // of who recovers, to his like (Node.Mail)
	kindEnd
)

func (k Kind) String() string {
	return [...]string{"?", "Read", "Write-fetch", "Fetched", "Intend-to-commit", "Ack", "Validation", "Squash",
		"Abort", "Reserve", "Reserved", "Persist", "Truncate", "Done", "Mail"}[k]
}

// Message from one NIC to another.
type Message struct {
	Kind     Kind
	From, To NodeID
	ID       ID     // the transaction that it is of
	Request  uint32 // number of a Read or WriteFetch in its attempt, and of its answer; of Done: the kind that is done; of Truncate: see Replicas.Apply
	Holds    bool   // of a Read or WriteFetch: its transaction has reserved lines
	Lines    []bloom.Line
	Reads    int    // of Reserve: so many of Lines, the first ones, are only read
	Shadows  int    // of Read, WriteFetch and Fetched: so many of Lines, the last ones, are for the checker alone
	Data     []Data // of Fetched and Validation: one for each of Lines
	Body     []byte // of Persist and Mail: opaque to nodes
}

// accessed are the lines of a Read or WriteFetch that filters and the directory see.
func (m *Message) accessed() []bloom.Line { return m.Lines[:len(m.Lines)-m.Shadows] }

func (m *Message) String() string {
	return fmt.Sprintf("%v of %v from %d to %d, lines %v", m.Kind, m.ID, m.From, m.To, m.Lines)
}

// Pool keeps messages for the next use. All nodes of a cluster may share one.
type Pool struct{ free []*Message }

// get takes an empty message.
func (p *Pool) get() *Message {
	n := len(p.free)
	if n == 0 {
		return &Message{}
	}
	m := p.free[n-1]
	p.free = p.free[:n-1]
	return m
}

// Put gives a message back that nobody will use again.
func (p *Pool) Put(m *Message) {
	*m = Message{Lines: m.Lines[:0], Data: m.Data[:0], Body: m.Body[:0]}
	p.free = append(p.free, m)
}
