package cli

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/composition"
)

var exitCodeLine = regexp.MustCompile(`^  (0|1|2|3|4|130) +[^ ]`)

// The help of every command has one block of exit codes, in the same form.
func TestEveryCommandListsItsExitCodes(t *testing.T) {
	root := (&app{has: composition.BuiltIn(), stdout: io.Discard, stderr: io.Discard}).root()
	for _, c := range append(root.Commands(), root) {
		if c.Hidden {
			continue
		}
		if n := strings.Count(c.Long, "Exit codes"); n != 1 {
			t.Errorf("%s: %d blocks of exit codes in the help, not 1", c.CommandPath(), n)
			continue
		}
		_, block, _ := strings.Cut(c.Long, "\nExit codes")
		first, rest, _ := strings.Cut(block, "\n")
		codes := 0
		for _, line := range strings.Split(rest, "\n") {
			if strings.HasPrefix(line, " ") && !exitCodeLine.MatchString(line) {
				t.Errorf("%s: %q is not a line with an exit code", c.CommandPath(), line)
			}
			if exitCodeLine.MatchString(line) {
				codes++
			}
		}
		if !strings.HasSuffix(first, ":") || codes < 2 || !strings.HasPrefix(rest, "  0  ") {
			t.Errorf("%s: no list of exit codes:\n%s", c.CommandPath(), block)
		}
	}
}
