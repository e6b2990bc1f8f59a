package report

import (
	"bytes"
	"fmt"
	"html"
	"io"

	"drtmd/proto/chop"
)

// Sizes of a drawing of pieces, in pixels.
const (
	chopMargin  = 20
	chopLabel   = 60 // for a transaction's short name
	chopRow     = 92 // from one transaction to the next
	chopBox     = 36 // height of a piece
	chopLetter  = 8  // width of a letter in a piece
	chopGap     = 26 // of an S-edge
	chopHead    = 40 // of a chopping, for its title
	chopLane    = 14 // between C-edges that pass other transactions
	chopRoom    = 120
	chopLegend  = 64
	chopNothing = 320 // least width
)

// drawnPiece is a piece with its place.
type drawnPiece struct {
	x, y, width int
}

func (p drawnPiece) middle() int { return p.x + p.width/2 }

// WriteSVG draws pieces as boxes, a line of them for each transaction, with S-edges and C-edges, one chopping below
// the other as in DrTM's Figure 7.
func (c *Chopping) WriteSVG(w io.Writer) error {
	var body bytes.Buffer
	y, width := chopMargin, chopNothing
	for _, r := range c.Results {
		fmt.Fprintf(&body, `<text x="%d" y="%d" class="t">%s: %s chopping</text>`+"\n", chopMargin, y+14,
			html.EscapeString(c.Workload), choppingName(r))
		y += chopHead
		places := make([][]drawnPiece, len(r.Transactions))
		for i := range r.Transactions {
			x := chopMargin + chopLabel
			for k := range r.Transactions[i].Pieces {
				p := drawnPiece{x, y, len(r.Transactions[i].Pieces[k].Name())*chopLetter + 24}
				places[i] = append(places[i], p)
				x += p.width + chopGap
			}
			width = max(width, x+chopRoom)
			y += chopRow
		}
		drawPieces(&body, r, places)
		for i, e := range r.Edges {
			drawConflict(&body, r, e, places, i)
		}
	}
	chopKeys(&body, y)
	y += chopLegend
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n",
		width, y, width, y)
	fmt.Fprintf(w, "<title>Pieces of %s</title>\n%s", html.EscapeString(c.Workload), chopStyle)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, y)
	_, err := fmt.Fprintf(w, "%s</svg>\n", body.Bytes())
	return err
}

const chopStyle = `<style>
text{font:13px sans-serif;fill:#222}.t{font-weight:bold;font-size:15px}.n{font-size:11px;fill:#555}
.b{fill:#eef4fa;stroke:#0072b2;stroke-width:1.5}.a{stroke:#d55e00;stroke-width:3}.o{stroke-dasharray:2 3}
.d{fill:#f7e9c8}.r{fill:#f2f2f2;stroke:#777}.s{stroke:#222;stroke-width:2.5}
.c{fill:none;stroke:#d55e00;stroke-width:1.4;stroke-dasharray:6 4}
</style>
`

// drawPieces draws the boxes and the S-edges between them.
func drawPieces(b *bytes.Buffer, r *chop.Result, places [][]drawnPiece) {
	for i := range r.Transactions {
		c := &r.Transactions[i]
		fmt.Fprintf(b, `<text x="%d" y="%d">%s<title>%s %s</title></text>`+"\n", chopMargin, places[i][0].y+chopBox/2+5,
			html.EscapeString(c.Short), html.EscapeString(c.Name), html.EscapeString(c.Verdict()))
		for k := range c.Pieces {
			p, at := &c.Pieces[k], places[i][k]
			if k > 0 {
				y := at.y + chopBox/2
				fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="s"/>`+"\n", at.x-chopGap, y, at.x, y)
			}
			class := "b"
			for _, x := range []struct {
				is   bool
				name string
			}{{p.Aborts, " a"}, {p.Outside, " o"}, {p.Deferred, " d"}, {c.TwoRounds, " r"}} {
				if x.is {
					class += x.name
				}
			}
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="5" class="%s"><title>%s</title></rect>`+"\n",
				at.x, at.y, at.width, chopBox, class, html.EscapeString(pieceWords(p)))
			fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", at.middle(), at.y+chopBox/2+5,
				html.EscapeString(p.Name()))
			fmt.Fprintf(b, `<text x="%d" y="%d" class="n">P%d</text>`+"\n", at.x, at.y-4, k+1)
		}
	}
}

// pieceWords are shown when the mouse is over a piece.
func pieceWords(p *chop.Piece) string {
	words := p.Name()
	for _, m := range p.Merges {
		words += "\n" + m.String()
	}
	return words
}

// drawConflict draws a C-edge: an arc below its piece if that conflicts with another instance of itself, and a line
// around the pieces of transactions that lie between.
func drawConflict(b *bytes.Buffer, r *chop.Result, e chop.Edge, places [][]drawnPiece, lane int) {
	first, last := min(e.From.Transaction, e.To.Transaction), max(e.From.Transaction, e.To.Transaction)
	from, to := places[e.From.Transaction][e.From.Piece], places[e.To.Transaction][e.To.Piece]
	if from.y > to.y {
		from, to = to, from
	}
	x1, y1, x2, y2 := from.middle(), from.y+chopBox, to.middle(), to.y
	var path string
	switch {
	case from == to:
		path = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1-10, y1, x1-20, y1+28, x1+20, y1+28, x1+10, y1)
	case first == last:
		path = fmt.Sprintf("M%d %dQ%d %d %d %d", x1, y1, (x1+x2)/2, y1+30, x2, y1)
	case last-first == 1:
		path = fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+30, x2, y2-30, x2, y2)
	default:
		x := x1
		for _, row := range places[first+1 : last] {
			end := row[len(row)-1]
			x = max(x, end.x+end.width)
		}
		x += chopLane * (1 + lane%6)
		path = fmt.Sprintf("M%d %dC%d %d %d %d %d %dV%dC%d %d %d %d %d %d", x1, y1, x1, y1+26, x, y1+6, x, y1+40, y2-44, x, y2-14,
			x2, y2-44, x2, y2)
	}
	title := html.EscapeString(fmt.Sprintf("%s (%s), %s (%s)", pieceName(r, e.From), e.By[0], pieceName(r, e.To), e.By[1]))
	fmt.Fprintf(b, `<path d="%s" class="c"><title>%s</title></path>`+"\n", path, title)
}

// chopKeys explains lines and boxes.
func chopKeys(b *bytes.Buffer, y int) {
	x := chopMargin
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="s"/><text x="%d" y="%d">S-edge</text>`+"\n", x, y, x+28, y, x+34, y+5)
	fmt.Fprintf(b, `<path d="M%d %dH%d" class="c"/><text x="%d" y="%d">C-edge between two instances</text>`+"\n", x+110, y, x+138, x+144, y+5)
	y += 26
	for i, k := range []struct{ class, text string }{{"b a", "user abort"}, {"b o", "outside"}, {"b d", "deferred"},
		{"b r", "two rounds"}} {
		at := x + i*110
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="24" height="16" rx="4" class="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			at, y-8, k.class, at+30, y+5, k.text)
	}
}
