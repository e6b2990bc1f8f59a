package verbs

import (
	"errors"
	"syscall"
	"testing"
)

func TestLineOwnersAreRefusedWithoutLineWordsAndBeyondTheBound(t *testing.T) {
	for _, c := range []struct {
		name   string
		words  bool
		owners int
		want   error
	}{
		{"without line words", false, 1, ErrUnsupported},
		{"none without line words", false, 0, nil},
		{"negative", true, -1, syscall.EINVAL},
		{"too many", true, MaxLineOwners + 1, syscall.EINVAL},
		{"as many as there may be", true, MaxLineOwners, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rigConfig{change: func(d *fakeDriver) { d.attr.Caps.LineWords = c.words }})
			mr, err := r.pd.AllocMR(4096, AccessAll, MROptions{LineOwners: c.owners})
			if !errors.Is(err, c.want) {
				t.Fatalf("AllocMR: %v, want %v", err, c.want)
			}
			if err != nil {
				return
			}
			// The fake driver has no line owners whatever its capabilities say.
			if o, err := mr.ClaimLineOwner(); !errors.Is(err, ErrUnsupported) {
				t.Errorf("claimed %v, %v", o, err)
			}
		})
	}
}
