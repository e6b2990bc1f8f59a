package planes

import (
	"io"
	"strings"
	"testing"
	"time"
)

// A transfer that takes long says how far it is and how long the rest takes; a short one nothing.
func TestALongTransferSaysHowFarItIs(t *testing.T) {
	var told []string
	x := newTransfer("sending", func(s string) { told = append(told, s) })
	now := time.Unix(1, 0)
	x.now = func() time.Time { return now }
	x.expect(100e6)
	x.expect(200e6)
	w := x.writer(io.Discard)
	piece := make([]byte, 30e6)
	if _, err := w.Write(piece); err != nil || len(told) > 0 {
		t.Fatal(err, told)
	}
	now = now.Add(10 * time.Second)
	if _, err := w.Write(piece); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(piece); err != nil { // at once: nothing new
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "sending: 60 of 300 MB, about 40s left") {
		t.Errorf("%q", told)
	}
}
