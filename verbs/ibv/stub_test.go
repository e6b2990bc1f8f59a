//go:build !cgo || !linux

package ibv

import (
	"errors"
	"strings"
	"testing"

	"drtmd/verbs"
)

func TestWithoutCgoItSaysSo(t *testing.T) {
	p := New()
	if p.Name() != "ibv" {
		t.Errorf("name %q", p.Name())
	}
	_, listErr := p.Devices()
	_, openErr := p.Open("")
	for _, err := range []error{listErr, openErr} {
		if !errors.Is(err, verbs.ErrNotBuilt) || !strings.Contains(err.Error(), "CGO_ENABLED=1") {
			t.Errorf("%v", err)
		}
	}
}
