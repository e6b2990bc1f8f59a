package recovery

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"drtmd/proto"
	"drtmd/store/layout"
)

var specs = []proto.TableSpec{{ID: 1, ValueBytes: 8}, {ID: 2, ValueBytes: 13}}

// writesOf decodes a body.
func writesOf(b []byte) (word uint64, all []Write, err error) {
	x, err := ReadBody(b)
	for err == nil {
		var w Write
		var ok bool
		if ok, err = x.Next(specs, &w); !ok {
			break
		}
		all = append(all, w)
	}
	return x.Word, all, err
}

func TestBodiesComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.Uint64().Draw(t, "word")
		var want []Write
		var values []int
		before := 0
		for range rapid.IntRange(1, 9).Draw(t, "writes") {
			w := Write{Shard: proto.ShardID(rapid.Uint16().Draw(t, "shard")),
				Table: proto.TableID(rapid.IntRange(1, 2).Draw(t, "table")),
				Key:   proto.Key(rapid.Uint64().Draw(t, "key")), Version: layout.Version(rapid.Uint64().Draw(t, "version"))}
			if rapid.Bool().Draw(t, "has a value") {
				n := specs[w.Table-1].ValueBytes
				w.Value = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "value")
				values = append(values, n)
			}
			w.Read = rapid.Bool().Draw(t, "is only read")
			if w.Was = layout.Version(rapid.Uint64().Draw(t, "version before")); w.Was != 0 {
				before += WasBytes
			}
			want = append(want, w)
		}
		b := BeginBody(nil, word, len(want))
		for i := range want {
			b = AppendWrite(b, &want[i])
		}
		if n := BodyBytes(len(want), values...) + before; len(b) != n {
			t.Fatalf("%d bytes, not %d", len(b), n)
		}
		is, got, err := writesOf(b)
		if err != nil || is != word || len(got) != len(want) {
			t.Fatalf("%#x, %+v, %v", is, got, err)
		}
		for i := range got {
			a, b := got[i], want[i]
			if !bytes.Equal(a.Value, b.Value) || (a.Value == nil) != (b.Value == nil) {
				t.Fatalf("%+v, want %+v", a, b)
			}
			if a.Shard != b.Shard || a.Table != b.Table || a.Key != b.Key || a.Version != b.Version || a.Read != b.Read ||
				a.Was != b.Was {
				t.Fatalf("%+v, want %+v", a, b)
			}
		}
		for cut := range b {
			if _, _, err := writesOf(b[:cut]); !errors.Is(err, ErrRecord) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
		}
		if _, _, err := writesOf(append(b, 0)); !errors.Is(err, ErrRecord) {
			t.Fatalf("a byte more: %v", err)
		}
	})
}

// FuzzReadBody: nothing panics, and what is accepted encodes to what decodes to the same.
func FuzzReadBody(f *testing.F) {
	f.Add(AppendWrite(BeginBody(nil, 7, 1), &Write{Table: 1, Value: make([]byte, 8)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		word, all, err := writesOf(b)
		if err != nil {
			return
		}
		again := BeginBody(nil, word, len(all))
		for i := range all {
			again = AppendWrite(again, &all[i])
		}
		if len(again) != len(b) {
			t.Errorf("%d bytes became %d", len(b), len(again))
		}
	})
}

func TestNamesTellTransactionsApart(t *testing.T) {
	n := MakeName(200, 4095, 5, 9)
	if n.Node() != 200 || n.Worker() != 4095 {
		t.Errorf("%#x: node %d, worker %d", uint64(n), n.Node(), n.Worker())
	}
	seen := map[Name]bool{}
	for _, node := range []proto.NodeID{0, 1} {
		for _, worker := range []int{0, 1} {
			for _, life := range []uint32{0, 1} {
				for _, number := range []uint32{1, 2} {
					n := MakeName(node, worker, life, number)
					if seen[n] || n == 0 {
						t.Errorf("%#x twice, or 0", uint64(n))
					}
					seen[n] = true
				}
			}
		}
	}
}
