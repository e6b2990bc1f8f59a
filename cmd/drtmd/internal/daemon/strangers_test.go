package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// TestStepsOfARemovedMemberAreRefusedByName over the control plane, whichever version they are of: it
// may not know yet that it was removed.
func TestStepsOfARemovedMemberAreRefusedByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.settled(w.nodes...)
	former := w.nodes[1].d.members.Caller()
	w.nodes[1].stop()
	v := w.settled(w.nodes[0]).Version
	c, err := control.Dial(w.nodes[0].cfg.Control.Listen, control.DialOptions{
		Caller: func() control.Caller { return former }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, version := range []member.ShardVersion{v - 1, v, v + 1} {
		for _, step := range []load.Step{load.StepOpen, load.StepConnect, load.StepGo, load.StepStart,
			load.StepLook, load.StepEnd, load.StepFinish, load.StepQuit} {
			_, err := c.Do(t.Context(), version, []byte(`{"step":"`+string(step)+`"}`))
			if !errors.Is(err, member.ErrNotMember) || !strings.Contains(err.Error(), "node 1 (") ||
				!strings.Contains(err.Error(), "without it") {
				t.Errorf("%s of shard map %d by %v gives %v, want that it is no member", step, version,
					former.Self, err)
			}
		}
	}
	if s := w.nodes[0].self(); s.Phase != status.Ready {
		t.Errorf("phase %s: %s", s.Phase, s.Reason)
	}
	w.nodes[0].mustRun(bench(20 * time.Millisecond))
}
