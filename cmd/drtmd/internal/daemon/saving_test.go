package daemon

import (
	"path/filepath"
	"testing"

	"drtmd/cmd/drtmd/internal/status"
)

// TestPowerFailsBeforeTheNodeHasJoined: it ends at once, and does not wait for the members that it asks.
func TestPowerFailsBeforeTheNodeHasJoined(t *testing.T) {
	w := newWorld(t, 0)
	n := w.add()
	n.cfg.Cluster.Join = []string{"unix:" + filepath.Join(w.dir, "nobody.sock")}
	n.start()
	n.await(status.Joining)
	n.d.PowerFails()
	n.ends()
}
