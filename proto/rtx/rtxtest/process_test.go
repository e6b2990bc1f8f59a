package rtxtest

import (
	"errors"
	"os/exec"
	"testing"
)

// A kill sees whether the client had ended before.
func TestAKillSeesWhoHadEnded(t *testing.T) {
	for _, x := range []struct {
		name, script string
		want         error
	}{
		{"running", "echo; exec sleep 600", nil},
		{"lost its way", "exit 3", nil},
		{"ended well", "exit 0", errEnded},
		{"failed", "exit 1", errEnded},
		{"ended by another signal", "kill -TERM $$", errEnded},
	} {
		cmd := exec.Command("/bin/sh", "-c", x.script)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 1)) // it has ended, or has said a word
		if x.want == nil && x.name == "running" {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // its state says the same
		if err := ended(cmd.ProcessState); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", x.name, err, x.want)
		}
	}
}
