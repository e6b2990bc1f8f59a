package report

import (
	"fmt"
	"io"

	"drtmd/proto/chop"
)

// ChopSchema of the JSON of drtmd chop. docs/CHOP.md describes it.
const ChopSchema = "drtmd.chop/1"

// Chopping is how a workload may be chopped, with and without the optimisations that were asked for.
type Chopping struct {
	Workload string
	Results  []*chop.Result
}

// choppingName is what a result is called.
func choppingName(r *chop.Result) string {
	if r.Optimised {
		return "optimised"
	}
	return "default"
}

// pieceName is P4 of NEW.
func pieceName(r *chop.Result, id chop.PieceID) string {
	return fmt.Sprintf("%s.P%d", r.Transactions[id.Transaction].Short, id.Piece+1)
}

// WriteText prints the results for people.
func (c *Chopping) WriteText(w io.Writer) error {
	for i, r := range c.Results {
		if i > 0 {
			fmt.Fprintln(w)
		}
		steps := "§4.1"
		if r.Optimised {
			steps = "§4.1 to §4.4"
		}
		fmt.Fprintf(w, "%s, %s chopping (DrTM %s): %d transactions, %d pieces\n\n", c.Workload, choppingName(r), steps,
			len(r.Transactions), r.Pieces())
		for _, line := range r.Words() {
			fmt.Fprintln(w, line)
		}
		fmt.Fprintln(w, "\nC-edges, between two instances")
		for _, e := range r.Edges {
			fmt.Fprintf(w, "  %s -- %s  (%s, %s)\n", pieceName(r, e.From), pieceName(r, e.To), e.By[0], e.By[1])
		}
		if len(r.Edges) == 0 {
			fmt.Fprintln(w, "  none")
		}
	}
	return nil
}

type chopDocument struct {
	Schema    string         `json:"schema"`
	Workload  string         `json:"workload"`
	Choppings []chopChopping `json:"choppings"`
}

type chopChopping struct {
	Name         string            `json:"name"`
	Transactions []chopTransaction `json:"transactions"`
	Edges        []chopEdge        `json:"edges"`
}

type chopTransaction struct {
	*chop.Chopped
	Verdict string `json:"verdict"`
}

// chopEdge is a C-edge between pieces of two instances.
type chopEdge struct {
	From chopEnd `json:"from"`
	To   chopEnd `json:"to"`
}

// chopEnd is a piece, counted from 1, and the access by which it conflicts.
type chopEnd struct {
	Transaction string `json:"transaction"`
	Piece       int    `json:"piece"`
	Access      string `json:"access"`
}

// WriteJSON prints the results for programs.
func (c *Chopping) WriteJSON(w io.Writer) error {
	d := chopDocument{Schema: ChopSchema, Workload: c.Workload}
	for _, r := range c.Results {
		x := chopChopping{Name: choppingName(r), Edges: []chopEdge{}}
		for i := range r.Transactions {
			x.Transactions = append(x.Transactions, chopTransaction{&r.Transactions[i], r.Transactions[i].Verdict()})
		}
		end := func(id chop.PieceID, a chop.Access) chopEnd {
			return chopEnd{r.Transactions[id.Transaction].Name, id.Piece + 1, a.String()}
		}
		for _, e := range r.Edges {
			x.Edges = append(x.Edges, chopEdge{end(e.From, e.By[0]), end(e.To, e.By[1])})
		}
		d.Choppings = append(d.Choppings, x)
	}
	return writeJSON(w, &d)
}
