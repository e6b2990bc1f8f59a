package endtoend

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"drtmd/internal/testkit/raceskip"
)

// checkFailed is the exit status of drtmd reproduce where a row exceeds its bound: on a machine that others use the time of
// a bin says nothing.
const checkFailed = 3

// A client process of a memory node gets SIGKILL, and the others insert until the end: no lock of the dead keeps them.
func TestClientsOutliveAKilledOne(t *testing.T) {
	raceskip.Processes(t)
	c := command(t.Context(), nil, "reproduce", "rtx/figure-14-wall", "--quick")
	text, err := c.CombinedOutput()
	failed := (*exec.ExitError)(nil)
	if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != checkFailed) {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, row := range []string{"rtx: in the second half after it", "rtx: expired locks that the survivors met",
		"rtx: lowest bin over the level after the client has ended by itself",
		"optimal: in the second half after it"} {
		if !strings.Contains(string(text), row) {
			t.Errorf("no row %q:\n%s", row, text)
		}
	}
}
