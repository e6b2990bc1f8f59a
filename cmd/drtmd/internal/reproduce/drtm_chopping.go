package reproduce

import (
	"fmt"
	"slices"
	"strings"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/chop"
	"drtmd/proto/workload/tpcc"
)

// figure7 chops TPC-C, and compares what the caption and the text say of the figure.
func figure7(*Run) (*Outcome, error) {
	w := tpcc.Spec().Pieces
	plain, err := chop.Analyse(w, chop.Options{})
	if err != nil {
		return nil, err
	}
	best, err := chop.Analyse(w, chop.Options{Optimised: true})
	if err != nil {
		return nil, err
	}
	return &Outcome{Conditions: "the pieces that TPC-C declares, two instances of each transaction",
		Rows: slices.Concat(plainRows.of(plain), bestRows.of(best))}, nil
}

// Transactions of the figure.
const (
	newOrder = "new-order"
	payment  = "payment"
	delivery = "delivery"
)

// chopRow is a statement of the paper on a chopping.
type chopRow struct {
	what, section, paper, reading string
	ours                          func(r *chop.Result) string
}

type chopRows []chopRow

func (rows chopRows) of(r *chop.Result) (all []report.ComparedRow) {
	for _, x := range rows {
		all = append(all, word(x.what, x.section, x.paper, x.ours(r), x.reading))
	}
	return all
}

// plainRows are of the default chopping.
var plainRows = chopRows{
	{"default: pieces of NEW", "Figure 7, caption", "4", "", func(r *chop.Result) string {
		return fmt.Sprint(len(r.Find(newOrder).Pieces))
	}},
	{"default: pieces of NEW that conflict with nobody", "§4.1", "3", "", func(r *chop.Result) string {
		return fmt.Sprint(count(r.Find(newOrder), func(p *chop.Piece) bool { return !p.Conflicts }))
	}},
	{"default: first piece of NEW, with the user abort", "§4.1", "I", "", func(r *chop.Result) string {
		return piecesOf(r.Find(newOrder), func(p *chop.Piece) bool { return p.Aborts })
	}},
	{"default: operations of PAY that commute", "§4.1", "W, D", "they conflict with nobody, nor does H",
		func(r *chop.Result) string {
			return strings.TrimSuffix(piecesOf(r.Find(payment), func(p *chop.Piece) bool { return !p.Conflicts }), ", H")
		}},
	{"default: pieces of DLY", "§4.2", "N O L C", "C conflicts with PAY, and O and L lie between",
		func(r *chop.Result) string { return piecesOf(r.Find(delivery), everyPiece) }},
}

// bestRows are of the optimised one.
var bestRows = chopRows{
	{"optimised: deferred piece of DLY", "§4.2", "C", "", func(r *chop.Result) string {
		return piecesOf(r.Find(delivery), func(p *chop.Piece) bool { return p.Deferred })
	}},
	{"optimised: conflicting piece of DLY", "§4.2", "N", "O and L are not in it any more", func(r *chop.Result) string {
		return piecesOf(r.Find(delivery), func(p *chop.Piece) bool { return p.Conflicts })
	}},
	{"optimised: DLY and PAY conflict", "§4.2", "no", "", func(r *chop.Result) string {
		for _, e := range r.Edges {
			names := []string{r.Transactions[e.From.Transaction].Name, r.Transactions[e.To.Transaction].Name}
			if slices.Contains(names, delivery) && slices.Contains(names, payment) {
				return "yes"
			}
		}
		return "no"
	}},
	{"optimised: piece of NEW that reads and updates the next order number", "§7.4", "P6", "",
		func(r *chop.Result) string {
			i := slices.IndexFunc(r.Find(newOrder).Pieces, func(p chop.Piece) bool { return slices.Contains(p.Ops, "D") })
			return fmt.Sprintf("P%d", i+1)
		}},
	{"optimised: searches and insertions of indexes apart", "Figure 7, caption", "C-IDX, D-IDX, O-IDX",
		"of those that the caption names; W-IDX and S-IDX are apart as well", func(r *chop.Result) string {
			var all []string
			for i := range r.Transactions {
				for _, p := range r.Transactions[i].Pieces {
					name := p.Name()
					if strings.HasSuffix(name, "-IDX") && len(p.Ops) == 1 && !slices.Contains([]string{"W-IDX", "S-IDX"}, name) {
						all = append(all, name)
					}
				}
			}
			slices.Sort(all)
			return strings.Join(slices.Compact(all), ", ")
		}},
}

func everyPiece(*chop.Piece) bool { return true }

func count(c *chop.Chopped, is func(*chop.Piece) bool) (n int) {
	for i := range c.Pieces {
		if is(&c.Pieces[i]) {
			n++
		}
	}
	return n
}

// piecesOf names some pieces.
func piecesOf(c *chop.Chopped, is func(*chop.Piece) bool) string {
	var all []string
	for i := range c.Pieces {
		if is(&c.Pieces[i]) {
			all = append(all, c.Pieces[i].Name())
		}
	}
	return strings.Join(all, ", ")
}
