package report

import (
	"strings"
	"testing"

	"drtmd/proto/protocol"
)

// TestReportsSayWhatThreadsDoByRole, in the text, in JSON and on the page; a share of time only where it is modelled.
func TestReportsSayWhatThreadsDoByRole(t *testing.T) {
	threads := [protocol.RolesEnd]int{protocol.Application: 2, protocol.Robinhood: 3, protocol.NICCore: 16}
	did := [protocol.RolesEnd]protocol.RoleStats{protocol.Application: {Committed: 4000, BusyPs: 6e12},
		protocol.Robinhood: {LogRecords: 12000, Updates: 24000, BusyPs: 9e12},
		protocol.NICCore:   {Committed: 4000, Requests: 48000, BusyPs: 24e12}}
	for name, b := range map[string]*Bench{"modelled": fixedModel(), "measured": fixedRun()} {
		b.FillRoles(threads, &did)
		var text, page strings.Builder
		if err := b.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if err := b.WriteHTML(&page); err != nil {
			t.Fatal(err)
		}
		busy := map[string][3]string{"modelled": {"50.0 %", "50.0 %", "25.0 %"}, "measured": {"-", "-", "-"}}[name]
		for i, want := range []string{"application thread|2|2000|0|0|0|", "Robinhood worker|3|0|6000|12000|0|",
			"NIC core|16|2000|0|0|24000|"} {
			if line := strings.Join(strings.Fields(want), " "); !strings.Contains(squeezed(text.String()), line+busy[i]) {
				t.Errorf("%s: no line %q in\n%s", name, line+busy[i], &text)
			}
		}
		if !strings.Contains(page.String(), "Threads by role") || !strings.Contains(page.String(), "Robinhood worker") {
			t.Errorf("%s: the page has no roles", name)
		}
		r := saved(t, b).Bench.Roles
		if len(r) != 3 || r[1].PerNode != 3 || r[1].Updates != 24000 || (r[1].Busy != nil) != (name == "modelled") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// squeezed has columns, which two spaces or more separate, by lines between them.
func squeezed(text string) string {
	for strings.Contains(text, "   ") {
		text = strings.ReplaceAll(text, "   ", "  ")
	}
	return strings.ReplaceAll(text, "  ", "|")
}
