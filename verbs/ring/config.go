package ring

import (
	"errors"
	"fmt"
	"time"

	"drtmd/internal/mutation"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lines"
	"drtmd/verbs/rpc"
)

// Defaults of Config, and bounds that are not settings.
const (
	defaultBytes = 64 << 10
	defaultCalls = 64
	defaultProbe = 2 * time.Millisecond

	// MinBytes is the least capacity of a ring.
	MinBytes = 16 * lines.Bytes
	maxBytes = 1 << 26
	maxCalls = 1 << 12

	// A request may take so much of a ring together with all that are unanswered, and their answers so much of
	// the other: shareParts of shareOf.
	shareParts = 3
	shareOf    = 8
	// tellPart of a ring is how much its receiver reads before it WRITES how far it is.
	tellPart = 4
)

// Config of NewPort. Zero fields take the defaults that are named.
type Config struct {
	Node  int // of the port
	Nodes int
	// Bytes of each ring, a multiple of 64; 0 = 64 KiB. The port has two for each other node, and as much again
	// to send from.
	Bytes int
	Calls int           // outstanding for each link and direction; 0 = 64
	Probe time.Duration // with calls in flight, the time without a message after which a word is WRITTEN; 0 = 2 ms
	// Conn is the queue pair to a node's worker as it is now, and Session the way to call it.
	Conn    func(node int) *fiber.Conn
	Session func(node int) *rpc.Session
	// Mutation is a deliberate bug; 0 is none.
	Mutation Mutation
}

func (c *Config) fill() {
	if c.Bytes == 0 {
		c.Bytes = defaultBytes
	}
	if c.Calls == 0 {
		c.Calls = defaultCalls
	}
	if c.Probe == 0 {
		c.Probe = defaultProbe
	}
}

func (c *Config) check() error {
	switch {
	case c.Bytes < MinBytes || c.Bytes > maxBytes || c.Bytes%lines.Bytes != 0:
		return fmt.Errorf("rings of %d bytes: they have %d to %d, a multiple of %d", c.Bytes, MinBytes, maxBytes,
			lines.Bytes)
	case c.Calls < 1 || c.Calls > maxCalls:
		return fmt.Errorf("%d calls outstanding: from 1 to %d may be", c.Calls, maxCalls)
	case c.Node < 0 || c.Node >= c.Nodes || c.Probe < 0:
		return fmt.Errorf("node %d of %d, probe after %v: no port is so", c.Node, c.Nodes, c.Probe)
	}
	return nil
}

// How Start and Await can end, beside rpc.RemoteError, the errors of package rpc while a link is opened, and
// those of waiting (package fiber).
var (
	// ErrDown: the queue pair of the link has failed or was replaced. The request was executed once or not at
	// all.
	ErrDown = errors.New("ring to the peer is down")
	// ErrEpoch: the epoch was raised here after the request was sent, or the peer has reached a higher one. In
	// the second case the request was not executed.
	ErrEpoch = errors.New("request of an older epoch")
	// ErrTooLong: a request or answer that never fits.
	ErrTooLong = errors.New("message too long for the ring")
	// ErrClosed: the port was closed.
	ErrClosed = errors.New("ring port is closed")
)

// Mutation is a deliberate bug, for tests that show that checks find it.
type Mutation uint8

// Mutations.
const (
	OverwriteUnread Mutation = iota + 1
	TakenEarly
	AnyAnswer
	OldEpochTaken
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "rings as they should be"},
	OverwriteUnread: {Name: "ring-overwrites-unread",
		Doc: "a message is written into its ring whether the receiver has read what was there or not"},
	TakenEarly: {Name: "message-taken-before-its-end-mark",
		Doc: "a message is taken as soon as it has begun to arrive"},
	AnyAnswer: {Name: "reply-matched-to-wrong-request",
		Doc: "an answer is given to the request that was sent last, whichever it belongs to"},
	OldEpochTaken: {Name: "ring-old-epoch-accepted", Doc: "requests of an older epoch are executed"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Doc is one line on what is wrong.
func (m Mutation) Doc() string { return mutations[m].Doc }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// Stats of a port, counted since its making; written by the worker's thread, read there.
type Stats struct {
	Requests  uint64 // sent
	Answers   uint64 // sent
	Received  uint64 // messages
	Writes    uint64 // that carried messages
	Bytes     uint64 // of them, in whole lines
	Told      uint64 // WRITES that told how far a ring was read
	Probes    uint64
	Waits     uint64 // of requests for room
	Stalls    uint64 // times that a request had to wait for room for its answer at its receiver
	Opened    uint64 // links
	Down      uint64 // links that have failed
	OldEpochs uint64 // requests refused
	Garbage   uint64 // links that failed because a ring held no message
}
