package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"drtmd/proto/chop"
)

// threePieces conflict with each other, and with another instance of themselves; names are escaped.
func threePieces(t *testing.T) *Chopping {
	t.Helper()
	op := func(name string, m chop.Mode) chop.Op {
		return chop.Op{Name: name, Accesses: []chop.Access{{Of: "t", Mode: m}}}
	}
	w := &chop.Workload{Transactions: []chop.Transaction{
		{Name: "first", Short: "<F>", Ops: []chop.Op{op("A&B", chop.Write)}},
		{Name: "second", Short: "S", Ops: []chop.Op{op("C", chop.Add)}},
		{Name: "third", Short: "T", Ops: []chop.Op{op("D", chop.Read)}}}}
	r, err := chop.Analyse(w, chop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &Chopping{Workload: "w", Results: []*chop.Result{r}}
}

// Each piece is a box and each C-edge a path, in a document that parses.
func TestPiecesAreDrawn(t *testing.T) {
	c := threePieces(t)
	var b bytes.Buffer
	if err := c.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	const legend = 1
	if n := strings.Count(text, `rx="5"`); n != c.Results[0].Pieces() {
		t.Errorf("%d boxes, %d pieces", n, c.Results[0].Pieces())
	}
	if n := strings.Count(text, "<path "); n != len(c.Results[0].Edges)+legend || n < 5 {
		t.Errorf("%d paths, %d edges", n, len(c.Results[0].Edges))
	}
}

// The JSON has the same edges, with pieces counted from 1.
func TestPiecesAsJSON(t *testing.T) {
	c := threePieces(t)
	var b bytes.Buffer
	if err := c.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var d chopDocument
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	e := d.Choppings[0].Edges
	if d.Schema != ChopSchema || len(e) != len(c.Results[0].Edges) ||
		e[0] != (chopEdge{chopEnd{"first", 1, "write t"}, chopEnd{"first", 1, "write t"}}) {
		t.Errorf("%s", b.String())
	}
}
