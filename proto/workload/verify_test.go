package workload_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// ordered is a workload of one ordered table, without a check of its own.
type ordered struct{ workload.Workload }

func (ordered) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: 1, Name: "rows", ValueBytes: 1, Ordered: true}}
}

func (ordered) Check(proto.NodeID, workload.Contents) (first, last workload.Quantities, err error) {
	return first, last, nil
}

// rows are contents of which a scan gives what it is told.
type rows struct {
	held  map[proto.Key]byte
	scans []proto.Key
	as    map[proto.Key]byte // values that the scan gives otherwise
}

func (r *rows) Read(_ proto.TableID, k proto.Key, dst []byte) error {
	v, ok := r.held[k]
	if !ok {
		return proto.ErrNotFound
	}
	dst[0] = v
	return nil
}

func (r *rows) Each(_ proto.TableID, visit func(proto.Key, []byte)) {
	for _, k := range slices.Sorted(maps.Keys(r.held)) {
		visit(k, []byte{r.held[k]})
	}
}

func (r *rows) Scan(_ proto.TableID, visit func(proto.Key, []byte) bool) error {
	for _, k := range r.scans {
		v, ok := r.as[k]
		if !ok {
			v = r.held[k]
		}
		if !visit(k, []byte{v}) {
			break
		}
	}
	return nil
}

// TestVerifyComparesScansWithLookUps: of every ordered table, whatever the workload checks itself.
func TestVerifyComparesScansWithLookUps(t *testing.T) {
	held := map[proto.Key]byte{3: 30, 5: 50, 9: 90}
	for _, c := range []struct {
		name  string
		scans []proto.Key
		as    map[proto.Key]byte
		wrong string
	}{
		{name: "all", scans: []proto.Key{3, 5, 9}},
		{name: "one left out", scans: []proto.Key{3, 9}, wrong: "it gives 2 records, and the table has 3"},
		{name: "one too many", scans: []proto.Key{3, 4, 5, 9}, wrong: "a look-up of key 0x4"},
		{name: "twice", scans: []proto.Key{3, 5, 5, 9}, wrong: "key 0x5 comes after key 0x5"},
		{name: "out of order", scans: []proto.Key{5, 3, 9}, wrong: "key 0x3 comes after key 0x5"},
		{name: "another value", scans: []proto.Key{3, 5, 9}, as: map[proto.Key]byte{5: 51},
			wrong: "a look-up of key 0x5 finds another value"},
	} {
		tally := workload.Verify(ordered{}, 2, &rows{held, c.scans, c.as})
		if c.wrong == "" && (tally.Wrong != "" || tally.Records != 3) ||
			c.wrong != "" && (!strings.Contains(tally.Wrong, c.wrong) || !strings.Contains(tally.Wrong, "node 2: scan of table rows")) {
			t.Errorf("%s: %+v, want %q", c.name, tally, c.wrong)
		}
	}
}
