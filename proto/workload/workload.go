// Package workload defines workloads, written once against package proto for all protocols: tables and
// their initial content, transactions drawn at random, and the check of the tables after a run. The packages
// below it are the workloads; packages above it choose one and run it.
//
// # Who may call what
//
// A Workload is immutable and may be used by any number of threads. A Client and a Driver belong to one
// fiber.
//
// # Determinism
//
// What a client draws depends on its random source alone: no clock, no global state.
package workload

import (
	"math/rand/v2"

	"drtmd/proto"
)

// MaxKinds bounds Decl.Kind: a workload has fewer types of transactions.
const MaxKinds = 16

// Workload is a set of tables with the transactions on them.
type Workload interface {
	// Name is that of the command line.
	Name() string
	// Tables are in the order of their ids, from 1.
	Tables() []proto.TableSpec
	// Placement says where records live.
	Placement() proto.Placement
	// Kinds names the types of transactions; Decl.Kind counts them from 1.
	Kinds() []string
	// Load gives put every record that node holds in the beginning. value is valid during the
	// call only. It ends with the first error of put.
	Load(node proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error
	// NewClient makes the source of transactions of one fiber on a node; never nil. It owns r from
	// then on.
	NewClient(home proto.NodeID, r *rand.Rand) Client
	// Sums names the sums that the workload's transactions change by known amounts.
	Sums() []string
	// Check checks what a node holds at rest, after the last transaction has ended. It returns the sums of
	// the beginning and those of now. A content that no transaction can have left, such as a value that was
	// never written for its key, is an error. Call Verify, which compares ordered tables with look-ups as well.
	Check(node proto.NodeID, c Contents) (initial, final Quantities, err error)
}

// Continuer is a workload whose clients number the records that they make. Programs that go on with tables of earlier
// runs call GoOn for each node before they make its clients.
type Continuer interface {
	// GoOn has the clients of a node number from behind what the node holds at rest. An error is that no number is
	// left.
	GoOn(node proto.NodeID, c Contents) error
}

// Bounded is a workload that says how much a transaction writes at most.
type Bounded interface {
	// MostWritten is how many records one transaction changes, and how many bytes their values have together. With
	// chopped it is of those that run in pieces the longest piece.
	MostWritten(chopped bool) (records, valueBytes int)
}

// Undeclared is a workload whose transactions may not declare what they access.
type Undeclared interface {
	// Undeclared reports whether they do not, and by which option.
	Undeclared() (option string, is bool)
}

// Client draws transactions, one after the other, without allocation.
type Client interface {
	// Next draws a transaction. It is valid until the next call.
	Next() (*proto.Decl, proto.Program)
	// Done is told the outcome of the transaction drawn last.
	Done(o proto.Outcome)
	// AddTo adds what the client's transactions did. One that was drawn and is not done counts
	// as one whose outcome is unknown.
	AddTo(l *Ledger)
}
