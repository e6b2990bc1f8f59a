package membership

import (
	"testing"
	"time"
)

func TestARefusalByMembersIsFinalAfterALease(t *testing.T) {
	const lease = 3 * time.Second
	begin := time.Unix(1000, 0)
	end := begin.Add(lease + leaseMargin)
	var r refusal
	for _, c := range []struct {
		name         string
		at           time.Time
		again, first bool
	}{
		{"the first", begin, true, true},
		{"the second", begin.Add(time.Second), true, false},
		{"just before the end", end.Add(-1), true, false},
		{"at the end", end, false, false},
	} {
		if again, first := r.waits(c.at, lease); again != c.again || first != c.first {
			t.Errorf("%s: again %v, first %v", c.name, again, first)
		}
	}
	r.forget()
	if again, first := r.waits(end, lease); !again || !first {
		t.Error("not anew after an outage")
	}
}
