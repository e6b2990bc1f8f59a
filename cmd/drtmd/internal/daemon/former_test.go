package daemon

import (
	"testing"

	"drtmd/cmd/drtmd/internal/status"
)

func TestAFormerMemberIsNotShownAsServing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.settled(w.nodes...)
	asked := w.nodes[0].client
	if _, err := asked.Status(t.Context(), false); err != nil { // it remembers the other one for a while
		t.Fatal(err)
	}
	gone := w.nodes[1].remove(w.nodes[0])
	w.until("it is no member", func() bool {
		st, err := asked.Status(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		view := st.State.Newest()
		if view.Has(gone) {
			return false
		}
		for _, n := range st.Nodes {
			if n.Member.Same(gone) && n.Phase != status.Gone {
				t.Errorf("%v is no member of epoch %d, and shown as %s", gone, view.Epoch, n.Phase)
			}
		}
		return true
	}, func() any { return gone })
}
