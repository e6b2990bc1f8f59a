package reproduce

import (
	"fmt"
	"math"
	"math/rand/v2"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/workload/smallbank"
)

// mixKind is a type of transaction in Table VII.
type mixKind struct {
	kind     smallbank.Kind
	short    string
	percent  float64
	kindType string  // d distributed, l local; rw read-write, ro read-only
	far      float64 // default probability of cross-machine accesses, in percent
}

// mixPaper is SmallBank's half of it.
var mixPaper = []mixKind{
	{smallbank.SendPayment, "SP", 25, "d+rw", 1}, {smallbank.Amalgamate, "AMG", 15, "d+rw", 1},
	{smallbank.Balance, "BAL", 15, "l+ro", 0}, {smallbank.DepositChecking, "DC", 15, "l+rw", 0},
	{smallbank.WriteCheck, "WC", 15, "l+rw", 0}, {smallbank.TransactSavings, "TS", 15, "l+rw", 0},
}

// mixNodes is the size of the paper's cluster.
const mixNodes = 6

// drawn counts the transactions of a kind.
type drawn struct {
	all, far, writing float64
}

// tableVII draws SmallBank's transactions and counts what they are.
func tableVII(r *Run) (*Outcome, error) {
	b, err := smallbank.New(smallbank.Default(mixNodes))
	if err != nil {
		return nil, err
	}
	const stretch = 10_000 // draws between two looks at the context
	total := pick(r, 1_000_000, 100_000)
	runs := make([]map[smallbank.Kind]*drawn, r.Seeds)
	for s := range runs {
		runs[s] = map[smallbank.Kind]*drawn{}
		for _, k := range mixPaper {
			runs[s][k.kind] = &drawn{}
		}
		c := b.NewClient(0, rand.New(rand.NewPCG(uint64(s+1), 7)))
		for i := range total {
			d, _ := c.Next()
			c.Done(proto.Committed)
			runs[s][smallbank.Kind(d.Kind)].add(d, b.Placement())
			if i%stretch == 0 {
				if err := r.step(s*total+i, r.Seeds*total); err != nil {
					return nil, err
				}
			}
		}
	}
	o := &Outcome{Conditions: fmt.Sprintf("%d transactions drawn by a client of one of %d nodes, %s",
		total, mixNodes, r.seedsText())}
	for _, k := range mixPaper {
		o.Rows = append(o.Rows, k.rows(runs, float64(total))...)
	}
	return o, nil
}

// add counts a transaction of node 0.
func (d *drawn) add(decl *proto.Decl, p proto.Placement) {
	d.all++
	far, writes := false, false
	for _, a := range decl.Accesses {
		far = far || p.Locate(a.Table, a.Key).Primary != 0
		writes = writes || a.Mode != proto.ModeRead
	}
	if far {
		d.far++
	}
	if writes {
		d.writing++
	}
}

// rows are the share of the kind, its type and how often it is distributed, in runs of so many
// transactions.
func (k *mixKind) rows(runs []map[smallbank.Kind]*drawn, total float64) []report.ComparedRow {
	var shares, fars []float64
	ours := drawn{}
	for _, run := range runs {
		d := run[k.kind]
		shares = append(shares, 100*d.all/total)
		fars = append(fars, 100*d.far/d.all)
		ours.all, ours.far, ours.writing = ours.all+d.all, ours.far+d.far, ours.writing+d.writing
	}
	chance := func(percent, n float64) limit {
		p := percent / 100
		return within(100 * 4 * math.Sqrt(p*(1-p)/(n*float64(len(runs))))).because("4 sigma")
	}
	name := fmt.Sprintf("%s (%s)", k.short, k.kind)
	rows := []report.ComparedRow{
		number{what: name + ", share", unit: "%", section: "Table VII",
			printed: fmt.Sprint(k.percent), paper: k.percent, digits: 2,
			limit: chance(k.percent, total)}.seen(shares...),
		word(name+", type", "Table VII", k.kindType, typeOf(ours),
			"d or l: distributed or local; rw or ro: read-write or read-only"),
	}
	if k.far > 0 {
		rows = append(rows, number{what: name + ", on two machines", unit: "%",
			section: "Table VII, note", printed: fmt.Sprint(k.far), paper: k.far, digits: 3,
			limit: chance(k.far, total*k.percent/100)}.seen(fars...))
	}
	return rows
}

// typeOf is what a kind's transactions are, if all are alike.
func typeOf(d drawn) string {
	place := map[bool]string{true: "d", false: "l"}[d.far > 0]
	switch d.writing {
	case 0:
		return place + "+ro"
	case d.all:
		return place + "+rw"
	}
	return place + "+mixed"
}
