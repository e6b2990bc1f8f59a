package tpcc

import (
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// rows are the keys of history rows at rest.
type rows struct {
	workload.Contents
	keys []proto.Key
}

func (r rows) Each(t proto.TableID, visit func(proto.Key, []byte)) {
	for _, k := range r.keys {
		if t == History {
			visit(k, nil)
		}
	}
}

// TestClientsOfALaterRunHaveNumbersOfTheirOwn, as long as there are some.
func TestClientsOfALaterRunHaveNumbersOfTheirOwn(t *testing.T) {
	w, err := New(Default(1))
	if err != nil {
		t.Fatal(err)
	}
	loaded := historyKey(0, noClient, 3)
	for last, want := range map[int]string{-1: "", 0: "", 41: "", noClient - 2: "", noClient - 1: "65535 clients apart"} {
		held := rows{keys: []proto.Key{loaded}}
		if last >= 0 {
			held.keys = append(held.keys, historyKey(0, uint16(last), 9), historyKey(0, 0, 100))
		}
		err := w.GoOn(0, held)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("after client %d: %v", last, err)
			}
			continue
		}
		c, _ := w.NewClient(0, rand.New(rand.NewPCG(1, 1))).(*client)
		if err != nil || int(c.number) != last+1 {
			t.Errorf("after client %d: client %d, %v", last, c.number, err)
		}
	}
}
