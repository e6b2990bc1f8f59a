package check

import "drtmd/proto/history"

// Need is about how many bytes of memory the check of a history takes, beside those that hold the
// history: the greater of what sorting takes and of what the graph takes, and two fifths for the
// collector and for keys that transactions insert. The benchmarks of this package print it beside what
// they took.
func Need(h *history.History) uint64 {
	const (
		txnBytes  = 32
		opBytes   = 24
		keyBytes  = 110 // dictionary with its slots, first, two contents, and what they outgrew
		edgeBytes = 4
		linkBytes = 12 + 3*4 // of two chains each: ends, starts, free; and what orders the nodes
		sortBytes = 2 * 16   // while a chain is made
	)
	txns, ops := h.Txns(), h.Ops()
	keys := max(h.Keys(history.Initial), h.Keys(history.Final))
	sorting := 2 * opBytes * ops
	graph := (opBytes+2*edgeBytes)*ops + (8+2*linkBytes+sortBytes+3*4+2*4)*txns
	need := txnBytes*txns + keyBytes*keys + max(sorting, graph)
	return need + need*2/5
}

// Fraction is about which part of a check is done, 0..1, when a phase has done so much of its total.
func Fraction(h *history.History, p Phase, done, total uint64) float64 {
	ops := float64(h.Ops() + 1)
	keys := float64(h.Keys(history.Initial) + h.Keys(history.Final))
	// Measured, in microseconds for an operation or a key; what counts is how they compare.
	weights := [...]float64{Reading: .23 * ops, Contents: .49 * keys, Sorting: .05 * ops,
		Resolving: .14 * ops, Linking: .36 * ops, Ordering: .1 * ops}
	all, before := 0.0, 0.0
	for i, w := range weights {
		all += w
		if Phase(i) < p {
			before += w
		}
	}
	if total > 0 && int(p) < len(weights) {
		before += weights[p] * min(float64(done)/float64(total), 1)
	}
	return before / all
}
