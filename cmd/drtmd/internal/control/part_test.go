package control

import (
	"context"
	"errors"
	"testing"
)

// partly does at some members what it is asked for, or at none.
type partly struct {
	backend
	was  string
	told []string
}

var errPart = errors.New("node 2 does not answer")

func (p *partly) SetLogLevel(context.Context, string, bool) (string, error) { return p.was, errPart }
func (p *partly) Drain(context.Context, bool) ([]string, error)             { return p.told, errPart }

func TestWhatWasDoneComesWithTheErrorOfTheRest(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		b    *partly
		part bool
	}{
		"some": {&partly{was: "info", told: []string{"node 1"}}, true},
		"none": {&partly{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			address := serving(t, "127.0.0.1:0", Options{Backend: c.b})
			client := dialed(t, address, nil, Caller{Build: build})
			check := func(what string, done bool, err error) {
				t.Helper()
				var part *PartError
				if errors.As(err, &part) != c.part || done != c.part || err == nil ||
					err.Error() != errPart.Error() {
					t.Errorf("%s: done %v, error %#v", what, done, err)
				}
			}
			was, err := client.SetLogLevel(ctx, "debug", true)
			check("level", was == "info", err)
			told, err := client.Drain(ctx, true)
			check("drain", len(told) == 1 && told[0] == "node 1", err)
		})
	}
}
