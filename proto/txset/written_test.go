package txset

import "testing"

// TestWhatIsWrittenOfAValue: parts grow to a range that has all of them, and anything else is all of the value.
func TestWhatIsWrittenOfAValue(t *testing.T) {
	r := Record[struct{}]{Value: make([]byte, 100)}
	check := func(from, to int) {
		t.Helper()
		if a, b := r.Written(); a != from || b != to {
			t.Errorf("from %d to %d, want %d to %d", a, b, from, to)
		}
	}
	check(0, 100)
	r.wrote(8, 8) // of no bytes
	check(0, 100)
	r = Record[struct{}]{Value: r.Value}
	r.wrote(40, 48)
	check(40, 48)
	r.wrote(60, 64)
	check(40, 64)
	r.wrote(10, 12)
	check(10, 64)
	r.partly = false // as Write does
	r.wrote(5, 6)
	check(0, 100)
}
