package report

import (
	"fmt"
	"image/color"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// named is a run, its place among the runs that are compared, and what it is called in a plot.
type named struct {
	name  string
	index int
	*Bench
}

// clockWord is put on axes. All runs of a plot have the same kind of time.
func clockWord(runs []named) string {
	if len(runs) > 0 && runs[0].Virtual {
		return ", modelled"
	}
	return ""
}

// throughputPlot is "" if no run has a series.
func throughputPlot(runs []named) (string, error) {
	var first, last time.Duration
	peak := 0.0
	for _, r := range runs {
		for _, x := range r.Series {
			first, last = min(first, x.At-x.Span), max(last, x.At)
			peak = max(peak, perSecond(x.Committed, x.Span))
		}
	}
	if last <= first {
		return "", nil
	}
	unit, unitName := time.Second, "s"
	switch span := last - first; {
	case span < time.Millisecond:
		unit, unitName = time.Microsecond, "us"
	case span < time.Second:
		unit, unitName = time.Millisecond, "ms"
	}
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	word := clockWord(runs)
	p := newPlot("time since the measurement began ["+unitName+word+"]", "committed/s"+word)
	p.Y.Tick.Marker, p.X.Tick.Marker = countTicks{}, countTicks{}
	// The curves stay below the legend, which has a line for each of several runs.
	room := 1.2
	if len(runs) > 1 {
		room = 1 / (1 - min(.6, float64(len(runs)+1)*(plotText+3)/(plotHeight-50)))
	}
	p.Y.Min, p.Y.Max = 0, max(peak*room, 1)
	p.X.Min, p.X.Max = in(first), in(last)
	if err := shadeWarmup(p, in(first)); err != nil {
		return "", err
	}
	label := "Committed transactions per second over time" + word + "."
	for _, r := range runs {
		c := curve{name: r.name}
		low, high := math.Inf(1), 0.0
		for _, x := range r.Series {
			v := perSecond(x.Committed, x.Span)
			c.points = append(c.points, plotter.XY{X: in(x.At - x.Span), Y: v},
				plotter.XY{X: in(x.At), Y: v})
			if x.At > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
		if err := addCurve(p, r.index, len(runs), c); err != nil {
			return "", err
		}
		if high > 0 {
			label += fmt.Sprintf(" %s: %.0f on average, %.0f to %.0f.", r.name, r.All.PerSecond, low,
				high)
		}
	}
	return svg(p, plotHeight, label)
}

// shadeWarmup marks the time before 0.
func shadeWarmup(p *plot.Plot, first float64) error {
	if first >= 0 {
		return nil
	}
	area, err := plotter.NewPolygon(plotter.XYs{{X: first}, {X: 0}, {X: 0, Y: p.Y.Max},
		{X: first, Y: p.Y.Max}})
	if err != nil {
		return err
	}
	area.Color, area.LineStyle.Width = color.Gray{238}, 0
	edge, err := plotter.NewLine(plotter.XYs{{}, {Y: p.Y.Max}})
	if err != nil {
		return err
	}
	edge.Dashes, edge.Color = []vg.Length{3, 3}, color.Gray{110}
	p.Add(area, edge)
	return addNote(p, first, p.Y.Max, " warm-up")
}

// nines turns a share into an axis on which each further nine takes as much room.
func nines(share float64, samples int64) float64 {
	most := math.Log10(float64(max(samples, 2)))
	if share >= 1 {
		return most
	}
	return min(-math.Log10(1-max(share, 0)), most)
}

// latencyPlot is "" if no run has quantiles.
func latencyPlot(runs []named) (string, error) {
	low, high, top := math.Inf(1), 0.0, 1.0
	var curves []curve
	word := clockWord(runs)
	label := "Share of the committed transactions by latency" + word + "."
	for _, r := range runs {
		c := curve{name: r.name}
		samples := int64(2)
		if l := r.All.Latency; l != nil {
			samples = l.Samples
			label += fmt.Sprintf(" %s: half within %s us, 90 %% %s, 99 %% %s, 99.9 %% %s.", r.name,
				micro(l.P50Ns), micro(l.P90Ns), micro(l.P99Ns), micro(l.P999Ns))
		}
		for _, q := range r.Quantiles {
			x := max(float64(q.Ns), 1) / 1e3 // the axis is logarithmic
			y := nines(q.P, samples)
			low, high, top = min(low, x), max(high, x), max(top, y)
			c.points = append(c.points, plotter.XY{X: x, Y: y})
		}
		curves = append(curves, c)
	}
	if high == 0 {
		return "", nil
	}
	p := newPlot("latency [us"+word+"]", "transactions that took at most so long")
	for i, c := range curves {
		if err := addCurve(p, runs[i].index, len(curves), c); err != nil {
			return "", err
		}
	}
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = logTicks{short}
	p.X.Min, p.X.Max = low/1.1, high*1.1
	p.Y.Min, p.Y.Max = 0, top
	p.Legend.Top, p.Legend.Left = false, false
	ticks := plot.ConstantTicks{{Value: 0, Label: "0 %"}, {Value: nines(.5, 10), Label: "50 %"}}
	for n := 1; n <= int(top); n++ {
		share := 100 - math.Pow(10, float64(2-n))
		ticks = append(ticks, plot.Tick{Value: float64(n),
			Label: fmt.Sprintf("%.*f %%", max(n-2, 0), share)})
	}
	p.Y.Tick.Marker = ticks
	return svg(p, plotHeight, label)
}

// abortPlot is "" if nothing was aborted.
func abortPlot(runs []named) (string, error) {
	var benches []*Bench
	for _, r := range runs {
		benches = append(benches, r.Bench)
	}
	causes := causesOf(benches)
	if len(causes) == 0 {
		return "", nil
	}
	word := clockWord(runs)
	p := newPlot("aborted attempts per committed transaction"+word, "")
	p.Y.Tick.Marker = causeTicks(causes)
	p.X.Tick.Marker = countTicks{}
	label := "Aborted attempts per committed transaction" + word + "."
	group := float64(len(runs)) + 0.8 // in bars
	most := 0.0
	for i, r := range runs {
		values := make(plotter.Values, len(causes))
		labels := plotter.XYLabels{}
		for j, cause := range causes {
			values[j] = ratio(abortsOf(&r.All, cause), r.All.Committed)
			most = max(most, values[j])
			shown := fmt.Sprintf("%.3g", values[j])
			if len(runs) > 1 {
				shown = fmt.Sprintf("%s %.3g", letter(r.index), values[j])
			}
			// The first run is on top, as in the legend.
			y := -float64(j) + (float64(len(runs)-1)/2-float64(i))/group
			labels.XYs = append(labels.XYs, plotter.XY{X: values[j], Y: y})
			labels.Labels = append(labels.Labels, shown)
			label += fmt.Sprintf(" %s, %s: %.4g.", r.name, cause, values[j])
			bar, err := plotter.NewPolygon(plotter.XYs{{Y: y - .45/group}, {X: values[j], Y: y - .45/group},
				{X: values[j], Y: y + .45/group}, {Y: y + .45/group}})
			if err != nil {
				return "", err
			}
			bar.Color, bar.LineStyle.Width = colorOf(r.index), 0
			p.Add(bar)
		}
		l, err := plotter.NewLabels(labels)
		if err != nil {
			return "", err
		}
		for j := range l.TextStyle {
			l.TextStyle[j].Font = p.X.Tick.Label.Font
			l.TextStyle[j].YAlign = draw.YCenter
		}
		l.Offset.X = 4
		p.Add(l)
	}
	p.X.Min, p.X.Max = 0, max(most*1.3, 1e-6)
	p.Y.Min, p.Y.Max = -float64(len(causes))+.5, .5
	height := 50 + vg.Length(group*float64(len(causes)))*barHeight
	return svg(p, max(height, 100), label)
}

func causeTicks(causes []string) plot.ConstantTicks {
	var t plot.ConstantTicks
	for j, c := range causes {
		t = append(t, plot.Tick{Value: -float64(j), Label: c})
	}
	return t
}

// causesOf aborts, in the order in which the runs name them.
func causesOf(runs []*Bench) []string {
	var all []string
	seen := map[string]bool{}
	for _, r := range runs {
		for _, a := range r.All.Aborts {
			if !seen[a.Reason] && a.Count > 0 {
				seen[a.Reason] = true
				all = append(all, a.Reason)
			}
		}
	}
	return all
}

func abortsOf(k *KindRow, cause string) uint64 {
	for _, a := range k.Aborts {
		if a.Reason == cause {
			return a.Count
		}
	}
	return 0
}
