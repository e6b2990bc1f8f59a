package load

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A run that could not settle says so over the wire too, and its sums are not judged.
func TestUnsettledTravelsWithTheResult(t *testing.T) {
	for _, u := range []Unsettled{{}, {Owed: 3, Waited: time.Second},
		{UnderWay: true}, {UnderWay: true, Owed: 1, Waited: 2 * time.Second},
		{Unapplied: 5, Waited: time.Second}, {Recovering: true, Waited: time.Second}} {
		b, err := json.Marshal(&Result{Unsettled: u.err()})
		if err != nil {
			t.Fatal(err)
		}
		var r Result
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		var e *UnsettledError
		switch {
		case u == (Unsettled{}):
			if r.Unsettled != nil {
				t.Errorf("settled: %v", r.Unsettled)
			}
			continue
		case !errors.As(r.Unsettled, &e):
			t.Errorf("%+v became %v", u, r.Unsettled)
			continue
		}
		if diff := cmp.Diff(u, e.Unsettled); diff != "" {
			t.Error(diff)
		}
		for want, says := range map[string]bool{"3 updates or locks are owed to nodes that could not be reached for 1s": u.Owed == 3,
			"backups have not applied 5 log records within 1s":      u.Unapplied == 5,
			"what lost nodes have left was not recovered within 1s": u.Recovering,
			"still under way": u.UnderWay, "sums cannot be judged": true,
			// What to do: the network comes first only where nodes could not be reached.
			"cannot be judged; look for the network's fault (drtmd status, ip link)": u.Owed > 0,
			"cannot be judged; look at the load of the backups' machines":            u.Unapplied > 0,
			"cannot be judged; see what the recovery waits for":                      u.Recovering,
			"cannot be judged; look at the load of all machines":                     u == Unsettled{UnderWay: true}} {
			if strings.Contains(e.Error(), want) != says {
				t.Errorf("%+v: %v", u, e)
			}
		}
	}
}

// TestVirtualTimeOutlastsABusyMachine: its events take as long as the machine needs, so real time must not end a run early.
func TestVirtualTimeOutlastsABusyMachine(t *testing.T) {
	if d := (&Options{}).bound(endTimeout); d != endTimeout {
		t.Errorf("a wait in real time is bounded by %v", d)
	}
	if d := (&Options{Virtual: true}).bound(endTimeout); d < 5*time.Minute {
		t.Errorf("virtual time is given %v", d)
	}
}
