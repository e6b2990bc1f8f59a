package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	plottext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of a plot in points. It is small, so that its text of plotText points can still be read when
// the whole is shrunk to the width of a phone.
const (
	plotWidth  = 420
	plotHeight = 270
	plotText   = 12
	barHeight  = 13 // of a bar of a bar chart
)

// curve is a line of a plot.
type curve struct {
	name   string
	points plotter.XYs
}

// colors of curves tell them apart also for most people who are colour-blind (Okabe and Ito); their
// dashes and symbols do so without colour.
func colorOf(i int) color.Color {
	all := [...]color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 128, 96, 255},
		{160, 82, 140, 255}, {90, 90, 90, 255}, {150, 110, 0, 255}}
	return all[i%len(all)]
}

func dashesOf(i int) []vg.Length {
	all := [...][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {4, 2, 1, 2, 1, 2}, {12, 3}}
	return all[i%len(all)]
}

func glyphOf(i int) draw.GlyphDrawer {
	all := [...]draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{},
		draw.CrossGlyph{}, draw.RingGlyph{}, draw.PlusGlyph{}}
	return all[i%len(all)]
}

// letter names a run in a plot: A, B, ... Z, A1, ...
func letter(i int) string {
	s := string(rune('A' + i%26))
	if i >= 26 {
		s += strconv.Itoa(i / 26)
	}
	return s
}

// newPlot is empty, with axes.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	sans := font.Font{Typeface: "Liberation", Variant: "Sans", Size: plotText}
	for _, s := range []*plottext.Style{&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label,
		&p.Y.Tick.Label, &p.Legend.TextStyle} {
		s.Font = sans
	}
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.X.Label.Padding, p.Y.Label.Padding = 3, 3
	p.Legend.Top, p.Legend.ThumbnailWidth, p.Legend.Padding = true, 28, 1
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	return p
}

// addCurve draws a line, with a symbol on some of its points if there are several curves or if it
// is a point only.
func addCurve(p *plot.Plot, i, of int, c curve) error {
	if len(c.points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(c.points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = colorOf(i), dashesOf(i), 1.6
	p.Add(line)
	if of == 1 && len(c.points) > 2 {
		return nil
	}
	const symbols = 8
	step := max(1, len(c.points)/symbols)
	var some plotter.XYs
	for j := i % step; j < len(c.points); j += step {
		some = append(some, c.points[j])
	}
	marks, err := plotter.NewScatter(some)
	if err != nil {
		return err
	}
	marks.Color, marks.Shape, marks.Radius = colorOf(i), glyphOf(i), 3
	p.Add(marks)
	if of > 1 {
		p.Legend.Add(c.name, line, marks)
	}
	return nil
}

// addNote writes into the plot.
func addNote(p *plot.Plot, x, y float64, note string) error {
	l, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: y}},
		Labels: []string{note}})
	if err != nil {
		return err
	}
	l.TextStyle[0].Font = p.X.Tick.Label.Font
	l.TextStyle[0].YAlign = draw.YTop
	p.Add(l)
	return nil
}

// svg draws a plot as an element of HTML that fills its container. label is for people who do not
// see it.
func svg(p *plot.Plot, height vg.Length, label string) (string, error) {
	c := vgsvg.New(plotWidth, height)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", fmt.Errorf("plot: %w", err)
	}
	s := b.String()
	begin := strings.Index(s, "<svg")
	if begin < 0 {
		return "", fmt.Errorf("plot: the drawing has no <svg element")
	}
	end := begin + strings.IndexByte(s[begin:], '>') + 1
	head := fmt.Sprintf(`<svg viewBox="0 0 %d %g" role="img" aria-label="%s" `+
		`xmlns="http://www.w3.org/2000/svg">`, plotWidth, float64(height), html.EscapeString(label))
	// No document may rely on a font that is not everywhere.
	body := strings.ReplaceAll(s[end:], "font-family:Liberation Sans",
		"font-family:'Liberation Sans',Arial,Helvetica,sans-serif")
	return head + body, nil
}

// logTicks are at 1, 2 and 5 times the powers of ten, or fewer if there would be too many.
type logTicks struct{ format func(float64) string }

func (t logTicks) Ticks(low, high float64) []plot.Tick {
	decades := math.Log10(high / low)
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range [...]float64{1, 2, 5} {
			v := m * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			label := ""
			if m == 1 || decades < 2.5 {
				label = t.format(v)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// countTicks are those of a linear axis, written short.
type countTicks struct{}

func (countTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = short(ticks[i].Value)
		}
	}
	return ticks
}

// short writes a number with few digits: 1.5k, 2M.
func short(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= u.size {
			return strconv.FormatFloat(v/u.size, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
