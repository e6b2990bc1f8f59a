package chop

import "strings"

// conflict reports whether two operations of different transactions conflict, and by which accesses.
func (g *graph) conflict(t *Transaction, i int, u *Transaction, j int) (Access, Access, bool) {
	for _, a := range t.Ops[i].Accesses {
		for _, b := range u.Ops[j].Accesses {
			if overlap(a, b) && !g.commute(a.Mode, b.Mode) && !handedOver(t, i, a, u, j, b) {
				return a, b, true
			}
		}
	}
	return Access{}, Access{}, false
}

// overlap reports whether two accesses can be to the same data.
func overlap(a, b Access) bool {
	if a.Mode == search || b.Mode == search {
		return a.table() == b.table()
	}
	return a.Of == b.Of || strings.HasPrefix(a.Of, b.Of+".") || strings.HasPrefix(b.Of, a.Of+".")
}

// commute reports whether the order of two accesses to the same data makes no difference.
func (g *graph) commute(a, b Mode) bool {
	adds := func(m Mode) bool {
		return m == Add || m == Append || m == Read && g.options.Mutation == ReadCommutes
	}
	structural := func(m Mode) bool { return m == Insert || m == Delete || m == Append }
	switch {
	case a == search:
		return !structural(b)
	case b == search:
		return !structural(a)
	}
	return a == Read && b == Read || adds(a) && adds(b)
}

// handedOver reports whether a conflict is decided by the one on the records' owners. Transactions that insert their
// owners have different ones. So have those that delete them, once they have done so. Who deletes comes behind who
// inserted, with all accesses, if each keeps to its side of the owner.
func handedOver(t *Transaction, i int, a Access, u *Transaction, j int, b Access) bool {
	if a.Owner == "" || b.Owner == "" || t.ownerTable(a.Owner) != u.ownerTable(b.Owner) {
		return false
	}
	if t.ownerMode(a.Owner) == Insert && u.ownerMode(b.Owner) == Insert {
		return true
	}
	return inTime(t, i, a.Owner) && inTime(u, j, b.Owner)
}

// inTime reports whether an operation comes after the deletion of the owner, or before its insertion.
func inTime(t *Transaction, i int, owner string) bool {
	at := t.op(owner)
	if t.ownerMode(owner) == Delete {
		return i == at || t.needs(i, at)
	}
	return i == at || t.needs(at, i)
}
