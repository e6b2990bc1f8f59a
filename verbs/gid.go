package verbs

import (
	"fmt"
	"net/netip"
	"strings"

	"drtmd/internal/invariant"
)

// GID is a port's global identifier: 16 bytes in network order.
type GID [16]byte

// String is the IPv6 notation that `rdma` and perftest print, as in ::ffff:10.0.0.1.
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// IsZero reports whether the table entry is empty.
func (g GID) IsZero() bool { return g == GID{} }

// GIDType is the encapsulation that an entry of the GID table stands for.
type GIDType uint8

const (
	GIDTypeIB GIDType = iota + 1
	GIDTypeRoCEv1
	GIDTypeRoCEv2
	GIDTypeMemory // shm, sim
)

func (t GIDType) String() string {
	return enumName([]string{"?", "IB", "RoCE v1", "RoCE v2", "memory"}, int(t), "GID type")
}

// GIDEntry is one row of a port's GID table.
type GIDEntry struct {
	Index  int
	Type   GIDType
	GID    GID
	NetDev string // network interface behind the entry; "" if none or unknown
}

// GIDChoice says which entry of a port's GID table to use. Its zero value leaves that to
// ChooseGID, so that nobody takes index 0 by leaving a field out.
type GIDChoice struct {
	given bool
	index int
}

// GIDAt chooses an index; CreateQP and CreateAH refuse one that the port does not have.
func GIDAt(index int) GIDChoice { return GIDChoice{given: true, index: index} }

// Index gives the index, and whether one was chosen.
func (c GIDChoice) Index() (int, bool) { return c.index, c.given }

// Resolved is the index of a choice that the layer has made, which is what drivers get.
func (c GIDChoice) Resolved() int {
	invariant.Assert(c.given, "the layer chooses the GID before it calls a driver")
	return c.index
}

// ChooseGID picks the entry to use on a port: on Ethernet RoCE v2 with an IPv4-mapped address
// first, then RoCE v2 IPv6 global, then RoCE v2 link-local, then RoCE v1 (IPv4-mapped, global,
// link-local); elsewhere the first entry. Empty entries are passed over, the lowest index wins
// among equals. Index 0 is nothing special: on rxe it often is a stale IPv6 link-local address.
func ChooseGID(entries []GIDEntry) (GIDEntry, bool) {
	best, bestRank := GIDEntry{}, 0
	for _, e := range entries {
		if r := gidRank(e); r > bestRank || r == bestRank && r > 0 && e.Index < best.Index {
			best, bestRank = e, r
		}
	}
	return best, bestRank > 0
}

func gidRank(e GIDEntry) int {
	if e.GID.IsZero() {
		return 0
	}
	address := 1 // link-local
	switch a := netip.AddrFrom16(e.GID); {
	case a.Is4In6():
		address = 3
	case !a.IsLinkLocalUnicast():
		address = 2
	}
	switch e.Type {
	case GIDTypeRoCEv2:
		return 10 + address
	case GIDTypeRoCEv1:
		return 4 + address
	case GIDTypeIB, GIDTypeMemory:
		return 1
	}
	return 0
}

// GIDTable formats a table for people, one row a line, "*" marks the entry that is chosen.
func GIDTable(entries []GIDEntry) string {
	chosen, ok := ChooseGID(entries)
	var b strings.Builder
	for _, e := range entries {
		mark := " "
		if ok && e.Index == chosen.Index {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %3d  %-8s %s", mark, e.Index, e.Type, e.GID)
		if e.NetDev != "" {
			b.WriteString("  " + e.NetDev)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
