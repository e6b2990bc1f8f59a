package reproduce

import (
	"context"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// TestModelCheckedProtocolsAreCounted: one whose orders do not show that a step is left out is not.
func TestModelCheckedProtocolsAreCounted(t *testing.T) {
	raceskip.Simulated(t)
	worlds := checkedWorlds()
	worlds[0].settings = "script=ones,replicas=3" // each writes one record: nothing is to be validated
	row, err := modelChecked(context.Background(), worlds)
	if err != nil || row.Ours != "2" || !row.Exceeds {
		t.Errorf("%+v, %v", row, err)
	}
}

// TestGoodputIsJudged by the bytes that are counted: with other headers of a packet it is not the paper's.
func TestGoodputIsJudged(t *testing.T) {
	for _, header := range []sim.Bytes{90, 20} {
		cost, err := sim.Preset(cx5)
		if err != nil {
			t.Fatal(err)
		}
		cost.Link.Header = header
		rates, err := scenario.Batches(cost, []int{4, 8})
		if err != nil {
			t.Fatal(err)
		}
		rows := goodputRows(rates)
		if len(rows) != 2 || rows[0].Bound == "" || rows[0].Exceeds != (header != 90) || rows[1].Ours != "yes" {
			t.Errorf("headers of %v: %+v", header, rows)
		}
	}
}
