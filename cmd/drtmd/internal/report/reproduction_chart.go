package report

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawn draws the chart: curves with lines, and what the paper prints as points of their own.
func (c *Chart) drawn() (string, error) {
	p := newPlot(c.X, c.Y)
	p.X.Tick.Marker, p.Y.Tick.Marker = countTicks{}, countTicks{}
	for i, curve := range c.Curves {
		if err := addChartCurve(p, i, curve); err != nil {
			return "", fmt.Errorf("%s: %w", c.Title, err)
		}
	}
	x, y := c.bounds()
	const side = 1.06 // the label of the last tick stays inside
	p.X.Min, p.X.Max = axis(x, c.LogX, side)
	// The legend stands above the curves, with a line for each.
	room := 1 / (1 - min(.6, float64(len(c.Curves)+1)*(plotText+3)/(plotHeight-50)))
	p.Y.Min, p.Y.Max = axis(y, c.LogY, room)
	if c.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{short}
	}
	if c.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{short}
	}
	for i, m := range c.Marks {
		if err := addMark(p, i, m); err != nil {
			return "", fmt.Errorf("%s: %w", c.Title, err)
		}
	}
	return svg(p, plotHeight, c.words())
}

// addMark adds a vertical line, with its text beside it: each further one is a line lower.
func addMark(p *plot.Plot, i int, m ChartMark) error {
	high := p.Y.Max * .62
	line, err := plotter.NewLine(plotter.XYs{{X: m.X, Y: p.Y.Min}, {X: m.X, Y: high}})
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = color.Gray{90}, []vg.Length{1, 2}, 1.2
	p.Add(line)
	text := " " + m.Text
	return addNote(p, m.X, high*(1-.07*float64(i)), text)
}

// fileName is the name of the file of chart i of an item's.
func (r *Reproduced) fileName(i int) string {
	name := strings.ReplaceAll(r.Name, "/", "-")
	if i > 0 {
		name += fmt.Sprintf("-%d", i+1)
	}
	return name + ".svg"
}

// paper is a white ground, behind the end of an <svg tag.
const paper = `><rect width="100%" height="100%" fill="white"/>`

// WritePlots draws all charts into files of a folder, and names them.
func (r *Reproduction) WritePlots(dir string) (files []string, err error) {
	for i := range r.Items {
		item := &r.Items[i]
		for j := range item.Charts {
			drawn, err := item.Charts[j].drawn()
			if err != nil {
				return files, err
			}
			path := filepath.Join(dir, item.fileName(j))
			write := func(w io.Writer) error {
				head, rest, _ := strings.Cut(drawn, ">")
				_, err := fmt.Fprintln(w, head+paper+rest) // it may stand on a dark page
				return err
			}
			if err := errors.Join(MayReplace(path), Replace(path, write)); err != nil {
				return files, err
			}
			files = append(files, path)
		}
	}
	return files, nil
}

// addChartCurve adds one, with its name in the legend.
func addChartCurve(p *plot.Plot, i int, c ChartCurve) error {
	var points plotter.XYs
	for _, at := range c.Points {
		points = append(points, plotter.XY{X: at[0], Y: at[1]})
	}
	if len(points) == 0 {
		return nil
	}
	if !c.Paper {
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Dashes, line.Width = colorOf(i), dashesOf(i), 1.6
		p.Add(line)
		p.Legend.Add(c.Name, line)
		return nil
	}
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	marks.Color, marks.Shape, marks.Radius = colorOf(i), draw.BoxGlyph{}, 4
	p.Add(marks)
	p.Legend.Add(c.Name, marks)
	return nil
}

// bounds are the least and the most of each axis.
func (c *Chart) bounds() (x, y [2]float64) {
	x, y = [2]float64{math.Inf(1), math.Inf(-1)}, [2]float64{math.Inf(1), math.Inf(-1)}
	for _, curve := range c.Curves {
		for _, at := range curve.Points {
			x = [2]float64{min(x[0], at[0]), max(x[1], at[0])}
			y = [2]float64{min(y[0], at[1]), max(y[1], at[1])}
		}
	}
	return x, y
}

// axis has some room above the most, so many times as long as what it shows. A linear one begins
// at 0.
func axis(b [2]float64, log bool, room float64) (low, high float64) {
	if !log {
		return 0, math.Max(b[1]*1.05*room, 1e-9)
	}
	low = b[0] / 1.1
	return low, low * math.Pow(b[1]*1.1/low, room)
}

// words say what the chart shows to people who do not see it.
func (c *Chart) words() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s by %s.", c.Title, c.Y, c.X)
	for _, m := range c.Marks {
		fmt.Fprintf(&b, " At %s: %s.", short(m.X), m.Text)
	}
	const most = 8 // points of a curve that are said
	for _, curve := range c.Curves {
		fmt.Fprintf(&b, " %s:", curve.Name)
		step := max(1, (len(curve.Points)+most-1)/most)
		for i := 0; i < len(curve.Points); i += step {
			fmt.Fprintf(&b, " %s at %s,", short(curve.Points[i][1]), short(curve.Points[i][0]))
		}
	}
	return strings.TrimSuffix(b.String(), ",") + "."
}

// table has the points of the chart, of the paper's and of ours. A curve of many points is thinned
// out.
func (c *Chart) table(modelled bool) htmlTable {
	t := htmlTable{Caption: "Points of the plot", Heads: heads("curve", ">"+c.X, ">"+c.Y)}
	const most = 16
	for _, curve := range c.Curves {
		step := max(1, (len(curve.Points)+most-1)/most)
		for i := 0; i < len(curve.Points); i += step {
			at := curve.Points[i]
			t.Rows = append(t.Rows, []cell{{Text: curve.Name}, {Text: fmt.Sprintf("%.5g", at[0]), Number: true},
				{Text: fmt.Sprintf("%.4g", at[1]), Number: true, Modelled: modelled && !curve.Paper}})
		}
	}
	return t
}
