package daemon

import (
	"slices"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/config"
)

func TestWarningsGetRarer(t *testing.T) {
	begin := time.Unix(1000, 0)
	p := pace{least: time.Second, most: 8 * time.Second}
	var at []int
	for i := range 60 {
		if p.due(begin.Add(time.Duration(i) * time.Second / 2)) {
			at = append(at, i)
		}
	}
	if want := []int{0, 2, 6, 14, 30, 46}; !slices.Equal(at, want) {
		t.Errorf("warned at %v half seconds, want %v", at, want)
	}
	p.reset()
	if !p.due(begin) {
		t.Error("not at once after it was over")
	}
}

// TestEveryKeyThatIsNotReloadedIsNamed when it has changed.
func TestEveryKeyThatIsNotReloadedIsNamed(t *testing.T) {
	was := config.Default()
	for _, k := range config.Keys() {
		is := config.Default()
		value := map[string]string{"whole number": "7", "number": "7", "true or false": "true",
			"size, such as 64MiB": "7MiB", "time, such as 2s or 500ms": "7s"}[k.Type()]
		if value == "" {
			value = "seven"
		}
		if err := k.Set(&is, value); err != nil {
			t.Fatal(err)
		}
		got := changed(&was, &is)
		if k.Path == "log.level" {
			if len(got) > 0 {
				t.Errorf("%v, though it is reloaded", got)
			}
			continue
		}
		if len(got) != 1 || got[0] != k.Path+` (is "`+k.Get(&was)+`", now "`+k.Get(&is)+`")` {
			t.Errorf("%s: %v", k.Path, got)
		}
	}
}

// A plane is tried again within seconds of the network's return, however often that failed before: an
// attempt that a silent peer ends after 2 s and its pause take at most 4.
func TestPlanesAreTriedAgainWithinSeconds(t *testing.T) {
	for failures := range 100 {
		for _, c := range []struct{ took, most time.Duration }{
			{0, 2 * time.Second}, {2 * time.Second, 2 * time.Second}, {8 * time.Second, 4 * time.Second},
			{time.Hour, 10 * time.Second},
		} {
			w := buildWait(failures, c.took)
			if w > c.most || w < min(c.most, retryWait) {
				t.Errorf("%v after %d failures of %v each, want at most %v", w, failures, c.took, c.most)
			}
		}
	}
	if a, b := buildWait(0, 0), buildWait(1, 0); a >= b {
		t.Errorf("waits of %v, then %v: do not grow", a, b)
	}
}

// What keeps planes from being built is said at once if it is new, and then ever more rarely.
func TestRepeatedCausesGetRarer(t *testing.T) {
	begin := time.Unix(1000, 0)
	var r repeats
	said := 0
	for i := range 60 {
		if r.due(begin.Add(time.Duration(i)*time.Second), "silent") {
			said++
		}
	}
	if said < 3 || said > 6 {
		t.Errorf("said %d times in a minute", said)
	}
	if !r.due(begin.Add(time.Minute), "another cause") {
		t.Error("another cause was not said at once")
	}
}
