package status

import "testing"

func TestClocksInWords(t *testing.T) {
	zero := 0
	for _, x := range []struct {
		c    Clock
		want string
	}{
		{Clock{Error: 170e-9, Bound: 170e-9, Lease: 400e-6, LeaseReadOnly: 1e-3},
			"the machine's, within 170ns; read leases of 400µs, read-only 1ms"},
		{Clock{Error: 170e-9}, "the machine's, within 170ns"},
		{Clock{Follows: &zero, Error: 123.69e-6, Bound: 255.19e-6, Age: 0.1, Drift: -12.4, DriftError: 34.6,
			Lease: 1.1656e-3, LeaseReadOnly: 1.7656e-3}, "within 123.69µs of node 0's (expected: 255.19µs), " +
			"drift -12±35 ppm; read leases of 1.17ms, read-only 1.77ms"},
	} {
		if got := x.c.String(); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
	}
}
