//go:build cgo && linux

package ibv

import (
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/verbstest"
)

// conformance is sized for Soft-RoCE in an emulated machine: an operation takes a tenth of a
// millisecond there. Hardware passes the same text sooner.
func conformance() verbstest.Env {
	return verbstest.Env{
		Provider:  providerName,
		Open:      func() (*verbs.Context, error) { return New().Open("") },
		Rounds:    0.05,
		Patience:  20 * time.Second,
		CaseLimit: 2 * time.Minute,
		MaxBytes:  1 << 20,
		Objects:   500,
	}
}

func TestMain(m *testing.M) { verbstest.Main(m, conformance()) }

func TestConformance(t *testing.T) {
	requireDevice(t)
	verbstest.Run(t, conformance())
}
