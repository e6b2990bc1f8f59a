package lookup

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTableVI is DrTM §6.4 at a million slots, within the tolerances that the readings have.
func TestTableVI(t *testing.T) {
	steps := 0
	table, err := Run(Options{Seed: 1, Progress: func(done, total int) {
		if steps++; done != steps || total < done {
			t.Errorf("step %d of %d after %d", done, total, steps-1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		row       int
		want      [3]float64
		tolerance float64
	}{
		{rowCuckoo, [3]float64{1.348, 1.652, 1.956}, 0.003},
		{rowHopscotch, [3]float64{1.0004, 1.0108, 1.0438}, 0.001},
		{rowLinked, [3]float64{1.0084, 1.0524, 1.1009}, 0.002},
		{rowCluster, [3]float64{1.0138, 1.0780, 1.1431}, 0.002},
		{rowFitted, [3]float64{0.202, 0.472, 0.588}, 0.004},
	} {
		for i, c := range table.Rows[x.row].Cells {
			if math.Abs(c.Ours-x.want[i]) > x.tolerance {
				t.Errorf("%s at %d %%: %.4f, want %.4f within %.3f", table.Rows[x.row].Structure,
					c.OccupancyPercent, c.Ours, x.want[i], x.tolerance)
			}
		}
	}
	for _, row := range []int{rowCuckoo, rowHopscotch, rowLinked, rowCluster} {
		near := 0.01
		if row == rowCuckoo {
			near = 0.02
		}
		for i, c := range table.Rows[row+1].Cells {
			uniform := table.Rows[row].Cells[i].Ours
			name := table.Rows[row].Structure
			if math.Abs(c.Ours-uniform) > 3*c.Sigma {
				t.Errorf("%s, Zipf, at %d %%: %.4f is over 3 sigma of %.4f from %.4f", name,
					c.OccupancyPercent, c.Ours, c.Sigma, uniform)
			}
			if math.Abs(c.Mean-uniform) > near {
				t.Errorf("%s, Zipf, at %d %%: mean %.4f over scramblings, uniform %.4f", name,
					c.OccupancyPercent, c.Mean, uniform)
			}
		}
	}
	for i, want := range []float64{0.179, 0.0240} {
		if c := table.Rows[rowText+i].Cells[0]; math.Abs(c.Ours-want) > 0.001 {
			t.Errorf("§6.4: %.4f, want %.4f", c.Ours, want)
		}
	}
	for i := range occupancies {
		cold, warm := table.Rows[rowFitted+1].Cells[i].Ours, table.Rows[rowWarm].Cells[i].Ours
		if warm > 0.03 || warm >= cold {
			t.Errorf("a warm cache of full size needs %.4f reads, a cold one %.4f", warm, cold)
		}
		for j := range 2 {
			own, without := table.Rows[rowOwn+j].Cells[i].Ours, table.Rows[rowCluster+j].Cells[i].Ours
			if own > 0.8*without {
				t.Errorf("this store's cache saves little: %.4f of %.4f reads", own, without)
			}
		}
	}
	var text bytes.Buffer
	if err := table.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.String())
}

func TestRunIsRepeatable(t *testing.T) {
	o := Options{Slots: 8000, Seed: 3}
	a, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a, b); d != "" {
		t.Error(d)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, x := range []struct {
		name  string
		slots int
		stop  bool
		want  error
	}{
		{"least", MinSlots, false, nil}, {"too few", MinSlots - 8, false, ErrSlots},
		{"not whole buckets", 2001, false, ErrSlots}, {"too many", MaxSlots + 8, false, ErrSlots},
		{"negative", -8, false, ErrSlots}, {"stopped", MinSlots, true, ErrStopped},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := Run(Options{Slots: x.slots, Stop: func() bool { return x.stop }})
			if !errors.Is(err, x.want) {
				t.Errorf("got %v, want %v", err, x.want)
			}
		})
	}
}

func TestTextAndJSONHaveEveryRow(t *testing.T) {
	table, err := Run(Options{Slots: 8000, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var text, encoded bytes.Buffer
	if err := errors.Join(table.WriteText(&text), table.WriteJSON(&encoded)); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(text.String(), "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("line of %d columns: %s", len(line), line)
		}
	}
	for _, r := range table.Rows {
		if !strings.Contains(text.String(), r.Structure) ||
			!strings.Contains(text.String(), r.Reading) {
			t.Errorf("no row %q in the text", r.Structure)
		}
	}
	var back Table
	if err := json.Unmarshal(encoded.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(table, back); d != "" {
		t.Error(d)
	}
}
