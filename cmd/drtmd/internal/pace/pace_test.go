package pace

import (
	"slices"
	"testing"
	"time"
)

func TestWarningsGetRarer(t *testing.T) {
	begin := time.Unix(1000, 0)
	p := Pace{Least: time.Second, Most: 8 * time.Second}
	var at []int
	for i := range 60 {
		if p.Due(begin.Add(time.Duration(i) * time.Second / 2)) {
			at = append(at, i)
		}
	}
	if want := []int{0, 2, 6, 14, 30, 46}; !slices.Equal(at, want) {
		t.Errorf("warned at %v half seconds, want %v", at, want)
	}
	p.Reset()
	if !p.Due(begin) {
		t.Error("not at once after it was over")
	}
}

// What keeps planes from being built is said at once if it is new, and then ever more rarely.
func TestRepeatedCausesGetRarer(t *testing.T) {
	begin := time.Unix(1000, 0)
	r := Repeats{Least: 2 * time.Second, Most: 30 * time.Second}
	said := 0
	for i := range 60 {
		if r.Due(begin.Add(time.Duration(i)*time.Second), "silent") {
			said++
		}
	}
	if said < 3 || said > 6 {
		t.Errorf("said %d times in a minute", said)
	}
	if !r.Due(begin.Add(time.Minute), "another cause") {
		t.Error("another cause was not said at once")
	}
}
