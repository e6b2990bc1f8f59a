package verbs

import (
	"strings"
	"testing"
)

func TestChooseGID(t *testing.T) {
	mapped := GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	global := GID{0: 0x20, 1: 0x01, 15: 1}
	local := GID{0: 0xfe, 1: 0x80, 15: 1}
	const v1, v2 = GIDTypeRoCEv1, GIDTypeRoCEv2
	for _, c := range []struct {
		name string
		rows []GIDEntry
		want int // index; -1 none
	}{
		{"empty", nil, -1},
		{"only empty rows", []GIDEntry{{Index: 0, Type: v2}}, -1},
		{"rxe: stale link-local first",
			[]GIDEntry{{Index: 0, Type: v2, GID: local}, {Index: 1, Type: v2, GID: mapped}}, 1},
		{"v2 IPv4 before v2 global",
			[]GIDEntry{{Index: 0, Type: v2, GID: global}, {Index: 3, Type: v2, GID: mapped}}, 3},
		{"v2 global before v2 link-local",
			[]GIDEntry{{Index: 0, Type: v2, GID: local}, {Index: 1, Type: v2, GID: global}}, 1},
		{"v2 link-local before v1 IPv4",
			[]GIDEntry{{Index: 0, Type: v1, GID: mapped}, {Index: 1, Type: v2, GID: local}}, 1},
		{"v1 IPv4 before v1 link-local",
			[]GIDEntry{{Index: 0, Type: v1, GID: local}, {Index: 1, Type: v1, GID: mapped}}, 1},
		{"lowest index among equals, in any order",
			[]GIDEntry{{Index: 5, Type: v2, GID: mapped}, {Index: 2, Type: v2, GID: mapped}}, 2},
		{"IB", []GIDEntry{{Index: 0, Type: GIDTypeIB, GID: local}}, 0},
		{"IB takes the first, not the best address",
			[]GIDEntry{{Index: 0, Type: GIDTypeIB, GID: local},
				{Index: 1, Type: GIDTypeIB, GID: global}}, 0},
		{"memory", []GIDEntry{{Index: 0, Type: GIDTypeMemory, GID: local}}, 0},
		{"unknown type", []GIDEntry{{Index: 0, Type: 99, GID: mapped}}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := ChooseGID(c.rows)
			if ok != (c.want >= 0) || ok && got.Index != c.want {
				t.Fatalf("chose %+v (%v), want index %d", got, ok, c.want)
			}
		})
	}
}

func TestGIDNotationAndTable(t *testing.T) {
	g := GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	if g.String() != "::ffff:10.0.0.1" {
		t.Fatalf("%s", g)
	}
	table := GIDTable(newFakeDriver().port.GIDs)
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	if len(lines) != 2 || strings.HasPrefix(lines[0], "*") || !strings.HasPrefix(lines[1], "*") {
		t.Fatalf("table\n%s", table)
	}
	for _, want := range []string{"RoCE v2", "::ffff:10.0.0.1", "eth7"} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("%q does not show %q", lines[1], want)
		}
	}
}

func TestGIDOutOfRangeShowsTheTable(t *testing.T) {
	r := newRig(t, rigConfig{})
	_, err := r.pd.CreateQP(QPConfig{Type: RC, SendCQ: r.scq, RecvCQ: r.rcq, SendDepth: 1,
		RecvDepth: 1, GIDIndex: GIDAt(7)})
	wantErr(t, "GID index 7", err, ErrNoGID)
	for _, want := range []string{"fake0", "port 1 has no GID at index 7", "::ffff:10.0.0.1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	_, err = r.pd.CreateAH(AHAttr{GIDIndex: GIDAt(7)})
	wantErr(t, "an address handle with GID index 7", err, ErrNoGID)
}

func TestGIDIsChosenAndMissingOnesAreNamed(t *testing.T) {
	r := newRig(t, rigConfig{})
	if r.d.qpCfg.GIDIndex != GIDAt(1) || r.qp.Endpoint().GID != r.d.port.GIDs[1].GID {
		t.Fatalf("the QP got index %v", r.d.qpCfg.GIDIndex)
	}
	ah, err := r.pd.CreateAHTo(goodEndpoint())
	check(t, err)
	if a := r.d.ahAttr; a.GIDIndex != GIDAt(1) || a.Port != 1 || a.HopLimit != defaultHopLimit {
		t.Fatalf("the address handle got %+v", a)
	}
	check(t, ah.Close())

	newRig(t, rigConfig{reset: true, change: func(d *fakeDriver) { // InfiniBand needs none
		d.port.GIDs, d.port.Link, d.port.GRH = nil, LinkInfiniBand, false
	}})
	d := newFakeDriver()
	d.port.GIDs = nil
	ctx, err := NewContext(d, ContextOptions{})
	check(t, err)
	pd, err := ctx.AllocPD()
	check(t, err)
	cq, err := ctx.CreateCQ(CQConfig{Depth: 1})
	check(t, err)
	_, err = pd.CreateQP(QPConfig{Type: RC, SendCQ: cq, RecvCQ: cq, SendDepth: 1, RecvDepth: 1})
	wantErr(t, "RoCE without a GID", err, ErrNoGID)
	for _, want := range []string{"fake0", "port 1", "0 entries", "IPv4 address"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	check(t, ctx.Close())
}
