package hades

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"drtmd/htm/directory"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/protocol"
	"drtmd/verbs/sim"
)

// TestTheManualHasTheConstantsOfTheModel: docs/SIM.md names each constant of HADES' chips with the value that the code
// has, and its source.
func TestTheManualHasTheConstantsOfTheModel(t *testing.T) {
	text, err := os.ReadFile("../../docs/SIM.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### The chips of HADES\n")
	section, _, _ = strings.Cut(section, "\n### ")
	rows := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || cells[0] == "| what" || cells[0] == "| ---" {
			continue
		}
		rows[strings.TrimPrefix(cells[0], "| ")] = cells[1]
		if !strings.Contains(cells[2], "cited: ") && !strings.Contains(cells[2], "assumed") &&
			!strings.HasPrefix(cells[2], "calibrated") && !strings.HasPrefix(cells[2], "of the model") {
			t.Errorf("%q has no source: %s", cells[0], cells[2])
		}
	}
	c, d, s := hardware.TableIII(hadesNodes, hadesCores, perCore), directory.Hades(hadesCores, perCore), protocol.HADESSoftware()
	cost, err := sim.Preset("hades")
	if err != nil {
		t.Fatal(err)
	}
	keep, patience := defaultOf(t, OptKeepCycles), defaultOf(t, OptPatience)
	lines, locks := defaultOf(t, OptLineCycles), defaultOf(t, OptLockCycles)
	if lines != c.Cycles.Line || locks != c.Cycles.Lock {
		t.Errorf("by default a line takes %d cycles and a lock %d, in hardware.TableIII %d and %d", lines, locks, c.Cycles.Line,
			c.Cycles.Lock)
	}
	ns := func(ps int64) string { return fmt.Sprintf("%g", float64(ps)/1000) }
	kb := func(x directory.Cache) int { return x.Bytes() >> 10 }
	llc := fmt.Sprintf("LLC, %d MB for each core in %d ways", kb(d.LLC)>>10, d.LLC.Ways)
	private := fmt.Sprintf("L1, %d KB in %d ways; L2, %d KB in %d ways", kb(d.L1), d.L1.Ways, kb(d.L2), d.L2.Ways)
	for what, value := range map[string]string{
		"cycle of a core": fmt.Sprintf("%d ps", hardware.CyclePs),
		private:           fmt.Sprintf("%d, %d cycles", d.L1.Cycles, d.L2.Cycles),
		llc:               fmt.Sprintf("%d cycles", d.LLC.Cycles),
		"memory":          fmt.Sprintf("%d cycles beyond the LLC", d.Memory),
		"lines of a transaction found": fmt.Sprintf("%d cycles, and %d for each line, at most %d", d.Find.Least, d.Find.PerLine,
			d.Find.Most),
		"a line inserted into a filter, or compared with all": fmt.Sprintf("%d cycles", c.Cycles.Line),
		"filters of a core: to be read, to be written": fmt.Sprintf("%d bits of %d hashes; %d by CRC and %d by cache set",
			d.Read.Bits, d.Read.Hashes, d.Write.Bits, d.Write.IndexBits),
		"filters of a NIC, of a remote transaction": fmt.Sprintf("%d bits of %d hashes, two of them", c.Filter.Bits,
			c.Filter.Hashes),
		"Locking Buffer loaded": fmt.Sprintf("%d cycles", c.Cycles.Lock),
		"a record of a replica made permanent (`--persist-cycles`)": fmt.Sprintf("%d cycles", keep),
		"header of a message": fmt.Sprintf("%d B, and %d for each line", hardware.HeaderBytes,
			hardware.AddressBytes),
		"lines of a record that a transaction does not access, for the checker": fmt.Sprintf("64 B on the wire, %.1f ns each",
			64*8*1e9/float64(cost.Link.Rate)),
		"lines of a record of the own node":              "as long as the slowest",
		"Locking Buffers of a node":                      "one for each pair of filters",
		"transactions of a core":                         fmt.Sprint(perCore),
		"squashes before a transaction locks everything": fmt.Sprint(patience),
		"CPU time of an attempt, a local look-up, a request, an access by the program": fmt.Sprintf("%s, %s, %s, %s ns", ns(beginPs),
			ns(findPs), ns(requestPs), ns(accessPs)),
		"an access by the program, of all three configurations, besides": ns(s.AccessPs) + " ns",
		"a record that is only read: its entry in the read set, the check of its lines and the copy; of the baseline, and of " +
			"HADES-H for its own node's records": fmt.Sprintf("%s + %s ns", ns(s.ReadSetPs), ns(s.AtomicPs)),
		"a record that is written: its entry in the write set, its new versions; of the same": fmt.Sprintf("%s + %s ns",
			ns(s.WritePs), ns(s.VersionPs)),
	} {
		if rows[what] != value {
			t.Errorf("%q: docs/SIM.md says %q, the code %q", what, rows[what], value)
		}
		delete(rows, what)
	}
	for _, what := range elsewhere() {
		if rows[what] == "" {
			t.Errorf("docs/SIM.md does not have %q", what)
		}
		delete(rows, what)
	}
	for what := range rows {
		t.Errorf("%q of docs/SIM.md is compared with no constant", what)
	}
}

// elsewhere are the rows that packages keyvalue and proto compare with their constants.
func elsewhere() []string {
	return []string{"a line of a store's index (`--store`)", "pause before a squashed transaction begins again"}
}

// The cluster of Table III.
const hadesNodes, hadesCores = 5, 5

func defaultOf(t *testing.T, name string) int {
	t.Helper()
	v, err := options().Values(nil)
	if err != nil {
		t.Fatal(err)
	}
	return v.Int(name)
}
