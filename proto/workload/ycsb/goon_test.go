package ycsb

import (
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// keys of a table at rest.
type keys struct {
	workload.Contents
	all []proto.Key
}

func (k keys) Each(_ proto.TableID, visit func(proto.Key, []byte)) {
	for _, key := range k.all {
		visit(key, nil)
	}
}

// TestALaterRunInsertsBehindTheRunsBefore on its node; another node goes on behind what was loaded.
func TestALaterRunInsertsBehindTheRunsBefore(t *testing.T) {
	o := Default(2)
	o.Letter, o.Keys = "D", 100
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	held := keys{all: []proto.Key{w.numbered(1, 0), w.numbered(1, 107), w.numbered(1, 104)}}
	if err := w.GoOn(1, held); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[proto.NodeID]uint64{0: 100, 1: 108} {
		c := &client{w: w, home: n}
		if got := c.insertion(); got != w.numbered(n, want) {
			t.Errorf("node %d inserts %#x, want %#x", n, got, w.numbered(n, want))
		}
	}
}
