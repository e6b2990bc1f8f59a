package recovery

import (
	"strings"
	"testing"

	"drtmd/proto"
)

// setups are all that are explored. Shards and coordinators that differ by a turn of the ring of nodes
// are the same.
func setups() (all []setup) {
	for _, size := range [][2]int{{3, 2}, {4, 2}, {3, 3}, {4, 3}} {
		for c := range size[0] {
			for second := range size[0] {
				written := []proto.ShardID{0}
				if second > 0 {
					written = append(written, proto.ShardID(second))
				}
				for _, values := range []bool{false, true} {
					all = append(all, setup{nodes: size[0], replicas: size[1], coordinator: c,
						written: written, values: values})
				}
			}
		}
	}
	return all
}

// TestDecisionsAreNeverTakenBack: in every state that a commit or an abort can come to, with up to f
// deaths at any points, what the client was told holds, what others have seen holds, and all replicas that
// live end alike.
func TestDecisionsAreNeverTakenBack(t *testing.T) {
	states, ends := 0, 0
	for _, x := range setups() {
		r := x.explore()
		states, ends = states+r.states, ends+r.ends
		if r.wrong != "" {
			t.Fatalf("%v: %s\n%s", &x, r.wrong, strings.Join(r.story, "\n"))
		}
	}
	t.Logf("%d states, %d of them ends", states, ends)
}

// TestTheModelFindsEachMutation: a model that finds nothing proves nothing.
func TestTheModelFindsEachMutation(t *testing.T) {
	for _, m := range []struct {
		name string
		bug  func(*setup)
	}{
		{"decide-abort-with-complete-log", func(x *setup) { x.rule.AbortComplete = true }},
		{"decide-commit-with-partial-log", func(x *setup) { x.rule.CommitPartial = true }},
		{"truncate-too-early", func(x *setup) { x.truncateFirst = true }},
		{"one-log-ack-missing", func(x *setup) { x.toldEarly = true }},
		{"only backups hold records", func(x *setup) { x.backupsOnly = true }},
		{"only backups hold records, and the client is told after COMMIT",
			func(x *setup) { x.backupsOnly, x.toldLast = true, true }},
		{"an abort unlocks before it drops", func(x *setup) { x.unlockFirst = true }},
		{"serve-before-lock-recovery", func(x *setup) { x.serveUnlocked = true }},
		{"recovery commits before every replica has a record", func(x *setup) { x.incomplete = true }},
		{"recovery unlocks while a promoted backup has names", func(x *setup) { x.keepNames = true }},
		{"recovery drops what is not applied everywhere", func(x *setup) { x.dropAtOnce = true }},
		{"recovery unlocks before it drops", func(x *setup) { x.unlockAllAtAbort = true }},
		{"old-epoch-accepted", func(x *setup) { x.unfenced = true }},
		{"unlock-says-nothing", func(x *setup) { x.unlockUnseen = true }},
		{"recovered-forgotten", func(x *setup) { x.madeUnseen = true }},
	} {
		t.Run(m.name, func(t *testing.T) {
			for _, x := range setups() {
				m.bug(&x)
				if r := x.explore(); r.wrong != "" {
					t.Logf("%v: %s\n%s", &x, r.wrong, strings.Join(r.story, "\n"))
					return
				}
			}
			t.Error("not found")
		})
	}
}
