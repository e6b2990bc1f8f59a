package chop

import (
	"fmt"
	"strings"
)

// Place is an operation of an instance of a transaction, from 1.
type Place struct {
	Transaction string `json:"transaction"`
	Instance    int    `json:"instance"`
	Op          string `json:"op"`
}

func (p Place) String() string {
	if p.Instance > 1 {
		return fmt.Sprintf("%s of another %s", p.Op, p.Transaction)
	}
	return p.Op + " of " + p.Transaction
}

// Step is a C-edge of a path. What lies between the end of one and the begin of the next is an S-edge, unless both
// are the same place.
type Step struct {
	From Place     `json:"from"`
	To   Place     `json:"to"`
	By   [2]Access `json:"-"`
}

func (s Step) String() string {
	return fmt.Sprintf("%s (%s) conflicts with %s (%s)", s.From, s.By[0], s.To, s.By[1])
}

// Why says why operations are one piece.
type Why string

// Reasons.
const (
	ByCycle Why = "SC-cycle"   // they lie on one
	ByAbort Why = "user abort" // the first piece has the user aborts, and what they need
	ByOrder Why = "order"      // one needs a part of the piece, and another part needs it
)

// Merge makes two operations parts of one piece.
type Merge struct {
	Why   Why       `json:"why"`
	Ops   [2]string `json:"ops"`
	Cycle []Step    `json:"cycle,omitempty"`
}

func (m Merge) String() string {
	both := m.Ops[0] + " and " + m.Ops[1]
	switch m.Why {
	case ByCycle:
		var steps []string
		for _, s := range m.Cycle {
			steps = append(steps, s.String())
		}
		return both + " lie on an SC-cycle: " + strings.Join(steps, "; ")
	case ByAbort:
		return both + ": only the first piece may abort, with what the abort needs"
	}
	return m.Ops[1] + " joins them: it needs a part of the piece, and a part of the piece needs it"
}

// Piece of a chopped transaction.
type Piece struct {
	Ops []string `json:"ops"`
	// Aborts says that the user may abort here: only in the first piece.
	Aborts bool `json:"aborts,omitempty"`
	// Outside says that the piece needs no region: a search of a stationary index (§4.3).
	Outside bool `json:"outside,omitempty"`
	// Deferred says that the piece is published at the barrier (§4.2).
	Deferred bool `json:"deferred,omitempty"`
	// Conflicts says that the piece has C-edges.
	Conflicts bool    `json:"conflicts,omitempty"`
	Merges    []Merge `json:"merges,omitempty"`
}

// Name is that of its operations, "D S L".
func (p *Piece) Name() string { return strings.Join(p.Ops, " ") }

// Chopped is a transaction with its pieces, in the order of their execution.
type Chopped struct {
	Name   string  `json:"name"`
	Short  string  `json:"short"`
	Pieces []Piece `json:"pieces"`
	// TwoRounds says that it is read-only and runs unchopped, outside of the graph (§4.4).
	TwoRounds bool `json:"two_rounds,omitempty"`
	// Subscribes says that it waits at the barrier for these publishers.
	Subscribes []string `json:"subscribes,omitempty"`
	// Notes says what else was decided, in words.
	Notes []string `json:"notes,omitempty"`
}

// Edge is a C-edge between pieces of two instances, maybe of one transaction.
type Edge struct {
	From, To PieceID
	By       [2]Access
}

// PieceID is a piece's place in the result, both from 0.
type PieceID struct{ Transaction, Piece int }

// Result of an analysis.
type Result struct {
	Optimised    bool
	Transactions []Chopped
	Edges        []Edge // each once
}

// Pieces counts them.
func (r *Result) Pieces() (n int) {
	for i := range r.Transactions {
		n += len(r.Transactions[i].Pieces)
	}
	return n
}

// Find is the chopping of a transaction, or nil.
func (r *Result) Find(name string) *Chopped {
	for i := range r.Transactions {
		if r.Transactions[i].Name == name {
			return &r.Transactions[i]
		}
	}
	return nil
}

// Verdict says in a line whether the transaction may be chopped, and why.
func (c *Chopped) Verdict() string {
	n := len(c.Pieces)
	switch {
	case c.TwoRounds:
		return "unchopped: read-only, it runs in two rounds outside of the graph (§4.4)"
	case n == 1 && len(c.Pieces[0].Ops) == 1:
		return "unchopped: it has one operation"
	case n == 1:
		return "may not be chopped: " + string(c.Pieces[0].Merges[0].Why) + " makes it one piece"
	}
	return fmt.Sprintf("may be chopped into %d pieces: no SC-cycle passes through two of them", n)
}

// Words explains the result, line by line.
func (r *Result) Words() []string {
	var lines []string
	for i := range r.Transactions {
		c := &r.Transactions[i]
		lines = append(lines, fmt.Sprintf("%s (%s) %s", c.Name, c.Short, c.Verdict()))
		for k := range c.Pieces {
			p := &c.Pieces[k]
			lines = append(lines, fmt.Sprintf("  P%d  %s%s", k+1, p.Name(), p.attributes(c.TwoRounds)))
			for _, m := range p.Merges {
				lines = append(lines, "        "+m.String())
			}
		}
		for _, n := range c.Notes {
			lines = append(lines, "  "+n)
		}
	}
	return lines
}

// attributes of a piece; alone: it is not in the graph.
func (p *Piece) attributes(alone bool) string {
	var all []string
	for _, x := range []struct {
		is   bool
		text string
	}{{p.Aborts, "the user may abort"}, {p.Outside, "outside of regions"},
		{p.Deferred, "deferred to the barrier"}, {!p.Conflicts && !p.Outside && !p.Deferred && !alone, "no conflict"}} {
		if x.is {
			all = append(all, x.text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "  (" + strings.Join(all, ", ") + ")"
}
