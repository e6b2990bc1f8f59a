package reproduce

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// A daemon is killed once, when the clients are measured and not before.
func TestKillerKillsWhenClientsAreMeasured(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(name, []byte(strconv.Itoa(c.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &killer{pid: name}
	for i, text := range []string{"warming up, 1 of 2\n", "mea", "suring, 3 of 4\n", "measuring, 4 of 4\n"} {
		if k.done != (i == 3) {
			t.Errorf("before %q: killed %v", text, k.done)
		}
		if _, err := k.Write([]byte(text)); err != nil || k.err != nil {
			t.Fatal(err, k.err)
		}
	}
	if err := c.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("%v", err)
	}
}
