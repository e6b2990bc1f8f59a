package check

import (
	"fmt"
	"strings"

	"drtmd/proto/history"
)

// describe puts a violation that single operations prove into words. o is the read, or the
// first of two writes; other is what it is compared with, or nil.
func (c *checker) describe(a Anomaly, o, other *op) Violation {
	txns := []uint32{o.txn()}
	if other != nil && other.txn() != o.txn() {
		txns = append(txns, other.txn())
	}
	who := fmt.Sprintf("T%d", len(txns))
	v := Violation{Anomaly: a}
	for _, t := range txns {
		v.Txns = append(v.Txns, c.outside(t))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: ", a)
	switch a {
	case AbortedRead:
		fmt.Fprintf(&b, "T1 %s, %s, which did not commit", c.found(o), by(other, who))
	case DirtyRead:
		fmt.Fprintf(&b, "T1 %s, %s, which replaced it before it committed", c.found(o), by(other, who))
	case WrongAbsence:
		fmt.Fprintf(&b, "T1 %s, but at no time that fits was it absent", c.found(o))
	case LostAddition:
		c.describeAddition(&b, o, other)
	case LostUpdate:
		if other == nil {
			fmt.Fprintf(&b, "T1 %s, but the tables held a version as new before the first transaction",
				c.didTo(o))
			break
		}
		if o.version != other.version {
			fmt.Fprintf(&b, "T1 %s, over version %v, which T2 replaced itself before it committed",
				c.didTo(o), history.Version(other.version))
			break
		}
		fmt.Fprintf(&b, "T1 and T2 both wrote version %v of %s, so one replaced the other unseen",
			history.Version(o.version), c.keyName(o.key))
	default:
		c.describeTorn(&b, o, other, who)
	}
	c.list(&b, txns)
	v.Text = b.String()
	return v
}

// describeAddition says to what an addition was not made.
func (c *checker) describeAddition(b *strings.Builder, o, other *op) {
	fmt.Fprintf(b, "T1 %s, but not to the number that was there before", c.didTo(o))
	switch {
	case other == nil:
	case other.txn() == o.txn():
		fmt.Fprintf(b, ", where T1 itself %s", did(other))
	default:
		fmt.Fprintf(b, ", where T2 %s", did(other))
	}
}

func (c *checker) describeTorn(b *strings.Builder, o, other *op, who string) {
	switch {
	case other == nil:
		fmt.Fprintf(b, "T1 %s, but no recorded transaction wrote that", c.found(o))
		if c.initial.known {
			fmt.Fprintf(b, ", and it was not loaded")
		}
	case other.class() >= classRead:
		fmt.Fprintf(b, "T1 %s, and %s %s, but they saw different values (digests %016x and %016x)",
			c.found(o), who, c.found(other), o.digest, other.digest)
	case (other.class() == classWrite || other.class() == classAdd) && o.class() == classRead:
		fmt.Fprintf(b, "T1 %s, but not the value that %s wrote (digests %016x and %016x)",
			c.found(o), who, o.digest, other.digest)
	default:
		fmt.Fprintf(b, "T1 %s, but %s %s", c.found(o), who, c.didTo(other))
	}
}

// describeGap says which write is missing before w.
func (c *checker) describeGap(w *op, last standing) Violation {
	v, absent := missing(last, w.version, w.class() == classDelete)
	what := "write"
	if absent {
		what = "delete"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: T1 %s, which takes a %s before it with version %v; no transaction that "+
		"counts made it", LostWrite, c.didTo(w), what, history.Version(v))
	txns := []uint32{w.txn()}
	switch {
	case last.write != nil && last.write.txn() != w.txn():
		txns = append(txns, last.write.txn())
		fmt.Fprintf(&b, ": the newest before it is T2's, with version %v", history.Version(last.version))
	case last.write == nil && last.version != 0:
		fmt.Fprintf(&b, ": the newest before it was there in the beginning, with version %v",
			history.Version(last.version))
	}
	g := Violation{Anomaly: LostWrite}
	for _, t := range txns {
		g.Txns = append(g.Txns, c.outside(t))
	}
	c.list(&b, txns)
	g.Text = b.String()
	return g
}

// describeFinal puts into words that a key's final content is not how it stands after the last write.
func (c *checker) describeFinal(a Anomaly, key uint32, f content, last standing) Violation {
	v := Violation{Anomaly: a}
	var b strings.Builder
	fmt.Fprintf(&b, "%v: in the end the tables hold ", a)
	switch f.state {
	case history.Deleted:
		fmt.Fprintf(&b, "%s deleted with version %v", c.keyName(key), history.Version(f.version))
	case 0:
		fmt.Fprintf(&b, "no %s", c.keyName(key))
	default:
		fmt.Fprintf(&b, "version %v of %s", history.Version(f.version), c.keyName(key))
	}
	var txns []uint32
	switch {
	case last.write != nil:
		txns = []uint32{last.write.txn()}
		v.Txns = append(v.Txns, c.outside(txns[0]))
		fmt.Fprintf(&b, ", but the last that counts is T1, which %s", c.didTo(last.write))
		if f.version == last.version && !last.absent {
			fmt.Fprintf(&b, " with another value (digests %016x and %016x)", f.digest, last.digest)
		} else if w := c.writer(key, f); w != nil && w.txn() != txns[0] {
			txns = append(txns, w.txn())
			v.Txns = append(v.Txns, c.outside(w.txn()))
			b.WriteString("; what they hold is T2's")
		}
	case !last.known:
		b.WriteString(", which no transaction that counts wrote")
	case last.absent:
		b.WriteString(", which was not there before, and nobody wrote it")
	case f.version == last.version:
		fmt.Fprintf(&b, ", but not the value that was there before, and nobody wrote it "+
			"(digests %016x and %016x)", f.digest, last.digest)
	default:
		fmt.Fprintf(&b, ", but version %v was there before, and nobody replaced it",
			history.Version(last.version))
	}
	c.list(&b, txns)
	v.Text = b.String()
	return v
}
