package twopl_test

import (
	"testing"

	"drtmd/proto/twopl"
	"drtmd/verbs"
)

// TestCPULocksOnlyWhereTheDeviceExcludesTheCPU: elsewhere twopl-local is twopl.
func TestCPULocksOnlyWhereTheDeviceExcludesTheCPU(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		for _, w := range c.Workers() {
			want := cpu && w.Scope == verbs.AtomicGlob
			if got := w.Engine.(*twopl.Engine).CPULocks(); got != want {
				t.Errorf("node %d, %v: CPU locks: %v, want %v", w.Node, w.Scope, got, want)
			}
		}
	})
}
