// Package retwis is the Retwis workload of TAPIR, as Xenic §5.4 runs it: a small Twitter clone whose
// transactions get and put plain keys.
//
//	add-user 5 %         gets 1 key, puts it and 2 others
//	follow 15 %          gets and puts 2 keys
//	post-tweet 30 %      gets and puts 3 keys, puts 2 others
//	load-timeline 50 %   gets 1 to 10 keys
//
// Xenic has 50 % read-only transactions, 1 to 10 keys, 64-byte values, Zipf 0.5, and a million keys per
// server; TAPIR's default is Zipf 0.75. The mix is TAPIR's: Xenic prints none.
//
// # Deviations
//
// Keys of one transaction are different: TAPIR may draw one twice. The Zipf distribution is made from
// its definition, its ranks scrambled over the nodes' keys.
//
// # What is checked
//
// Every value, when it is read: blind puts (of add-user and post-tweet) leave no sum.
package retwis

import (
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
)

// Kind is the type of a transaction: Decl.Kind.
type Kind uint8

// Kinds.
const (
	AddUser Kind = iota + 1
	Follow
	PostTweet
	LoadTimeline
	kindEnd // one past the last
)

func (k Kind) String() string {
	return [...]string{"add-user", "follow", "post-tweet", "load-timeline"}[k-1]
}

// MostGets of load-timeline.
const MostGets = 10

// Options of New.
type Options struct {
	Nodes      int
	Keys       int // per node
	ValueBytes int
	KeyBytes   int     // 0 = 8
	Theta      float64 // of Zipf; 0: uniform
}

// Default gives Xenic's options (§5.4) with 100,000 keys per node instead of a million.
func Default(nodes int) Options {
	return Options{Nodes: nodes, Keys: 100_000, ValueBytes: 64, Theta: 0.5}
}

// Retwis is the workload.
type Retwis struct {
	keyvalue.Space
	mix workload.Mix
}

// New checks the options and makes the workload.
func New(o Options) (*Retwis, error) {
	s, err := keyvalue.NewSpace(keyvalue.Space{Nodes: o.Nodes, Keys: o.Keys, ValueBytes: o.ValueBytes,
		KeyBytes: o.KeyBytes}, o.Theta)
	if err == nil && s.Records() < 2*MostGets {
		err = fmt.Errorf("%d keys on all nodes are fewer than %d", s.Records(), 2*MostGets)
	}
	if err != nil {
		return nil, fmt.Errorf("retwis: %w", err)
	}
	mix, err := workload.NewMix([]int{5, 15, 30, 50})
	return &Retwis{s, mix}, err
}

// Name is "retwis".
func (w *Retwis) Name() string { return "retwis" }

// Kinds names the transactions.
func (w *Retwis) Kinds() (names []string) {
	for k := AddUser; k < kindEnd; k++ {
		names = append(names, k.String())
	}
	return names
}

// Sums is none.
func (w *Retwis) Sums() []string { return nil }

// Check checks every value of a node.
func (w *Retwis) Check(node proto.NodeID, c workload.Contents) (first, last workload.Quantities, err error) {
	_, err = w.Space.Check(node, c)
	return first, last, err
}

// NewClient makes a client.
func (w *Retwis) NewClient(_ proto.NodeID, r *rand.Rand) workload.Client {
	c := keyvalue.NewClient(&w.Space, r, w.draw)
	c.Ships = true
	return &client{c}
}

// client leaves the sum out, which blind puts make meaningless.
type client struct{ *keyvalue.Client }

func (c *client) AddTo(*workload.Ledger) {}

// draw draws one transaction.
func (w *Retwis) draw(c *keyvalue.Client) {
	k := Kind(w.mix.Draw(c.Rand) + 1)
	c.Begin(uint8(k))
	switch k {
	case AddUser:
		c.AddDrawn(keyvalue.OpUpdate, 1)
		c.AddDrawn(keyvalue.OpPut, 2)
	case Follow:
		c.AddDrawn(keyvalue.OpUpdate, 2)
	case PostTweet:
		c.AddDrawn(keyvalue.OpUpdate, 3)
		c.AddDrawn(keyvalue.OpPut, 2)
	case LoadTimeline:
		c.AddDrawn(keyvalue.OpGet, 1+c.Rand.IntN(MostGets))
	}
}
