package reproduce

import (
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload/ycsb"
)

// ycsbMix is a column of Table 1.
type ycsbMix struct {
	letter     string
	reads      int // option of the workload; 0: the letter's own share
	first      string
	percent    float64
	second     string
	paperShare string
}

var ycsbMixes = []ycsbMix{
	{"A", 50, "read", 50, "update", "50 : 50"}, {"B", 90, "read", 90, "update", "90 : 10"},
	{"C", 0, "read", 100, "", "100"}, {"D", 0, "read", 95, "insert", "95 : 5"}, {"E", 0, "scan", 95, "insert", "95 : 5"},
}

// workloadMixes is Table 1: it draws transactions of each workload and counts their kinds.
func workloadMixes(r *Run) (*Outcome, error) {
	total := pick(r, 200_000, 20_000)
	o := &Outcome{Conditions: fmt.Sprintf("%d transactions drawn of each workload, %s; B has --reads 90", total, r.seedsText())}
	for i, m := range ycsbMixes {
		var shares []float64
		kinds := ""
		for seed := range r.Seeds {
			if err := r.step(i*r.Seeds+seed, len(ycsbMixes)*r.Seeds); err != nil {
				return nil, err
			}
			options := ycsb.Default(1)
			options.Letter, options.Reads, options.Keys, options.Room, options.ValueBytes = m.letter, m.reads, 1000, total, valueBytes
			w, err := ycsb.New(options)
			if err != nil {
				return nil, err
			}
			kinds = w.Kinds()[0] + " : " + w.Kinds()[1]
			c, first := w.NewClient(0, rand.New(rand.NewPCG(uint64(seed+1), 7))), 0
			for range total {
				if d, _ := c.Next(); w.Kinds()[d.Kind-1] == m.first {
					first++
				}
				c.Done(proto.Committed)
			}
			shares = append(shares, 100*float64(first)/float64(total))
		}
		pattern := m.first
		if m.second != "" {
			pattern += " : " + m.second
			o.Rows = append(o.Rows, word("YCSB "+m.letter+": pattern", "Table 1", pattern, kinds, ""))
		}
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("YCSB %s: share of %ss", m.letter, m.first), unit: "%", section: "Table 1",
			digits: 1, printed: m.paperShare, paper: m.percent, limit: within(pick(r, 0.5, 1.5))}.seen(shares...))
	}
	return o, nil
}
