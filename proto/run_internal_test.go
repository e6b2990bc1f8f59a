package proto

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestTheManualHasThePauses: docs/SIM.md says how long a transaction pauses after an abort.
func TestTheManualHasThePauses(t *testing.T) {
	text, err := os.ReadFile("../docs/SIM.md")
	if err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf("| pause before a squashed transaction begins again | none after %s squashes, then up to %d us |",
		[...]string{1: "one", 2: "two", 3: "three"}[backoffAfter], backoffMost.Microseconds())
	if !strings.Contains(string(text), row) {
		t.Errorf("docs/SIM.md does not have the row %q", row)
	}
}
