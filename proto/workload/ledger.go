package workload

import (
	"fmt"
	"slices"

	"drtmd/proto"
)

// Quantities are sums that a workload's transactions change by known amounts, such as the money
// in a bank. What each means is the workload's; those that it does not use stay 0.
type Quantities [2]int64

// Plus is the sum.
func (q Quantities) Plus(o Quantities) Quantities { return Quantities{q[0] + o[0], q[1] + o[1]} }

// Ledger is what transactions did to the quantities.
type Ledger struct {
	Committed Quantities   // by all that were committed
	Unknown   []Quantities // by each of which nobody knows whether it was committed
}

// Add adds another ledger.
func (l *Ledger) Add(o *Ledger) {
	l.Committed = l.Committed.Plus(o.Committed)
	l.Unknown = append(l.Unknown, o.Unknown...)
}

// Settle adds a transaction that has ended: all of it, nothing, or maybe all.
func (l *Ledger) Settle(o proto.Outcome, q Quantities) {
	switch o {
	case proto.Committed:
		l.Committed = l.Committed.Plus(q)
	case proto.Unknown:
		l.AddUnknown(q)
	}
}

// AddUnknown adds a transaction whose outcome is unknown. One that changes nothing is left out.
func (l *Ledger) AddUnknown(q Quantities) {
	if q != (Quantities{}) {
		l.Unknown = append(l.Unknown, q)
	}
}

// maxSums bounds the sums that Explains keeps.
const maxSums = 1 << 16

// Explains checks that the final quantities are the initial ones and what was done: everything
// committed, and any of the transactions of unknown outcome. Each of these has happened as a whole
// or not at all. With so many of them that more than 65,536 different sums are possible, only the
// bounds of the sums are checked.
func (l *Ledger) Explains(initial, final Quantities, names ...string) error {
	sums := []Quantities{initial.Plus(l.Committed)}
	low, high := sums[0], sums[0]
	for _, u := range l.Unknown {
		for i, v := range u {
			low[i] += min(v, 0)
			high[i] += max(v, 0)
		}
		if len(sums) > maxSums {
			continue
		}
		for _, s := range sums[:len(sums):len(sums)] {
			sums = append(sums, s.Plus(u))
		}
		slices.SortFunc(sums, compare)
		sums = slices.Compact(sums)
	}
	if len(sums) <= maxSums {
		if _, ok := slices.BinarySearchFunc(sums, final, compare); ok {
			return nil
		}
	} else if within(final, low, high) {
		return nil
	}
	for i, name := range names {
		if low[i] == high[i] && final[i] != low[i] {
			return fmt.Errorf("%s: %d at the end, but %d in the beginning and %+d by committed "+
				"transactions make %d", name, final[i], initial[i], l.Committed[i], low[i])
		}
	}
	return fmt.Errorf("%v: %v at the end, %v in the beginning, %v by committed transactions; no "+
		"choice among %d transactions of unknown outcome explains the difference", names, final,
		initial, l.Committed, len(l.Unknown))
}

func compare(a, b Quantities) int { return slices.Compare(a[:], b[:]) }

func within(q, low, high Quantities) bool {
	for i := range q {
		if q[i] < low[i] || q[i] > high[i] {
			return false
		}
	}
	return true
}
