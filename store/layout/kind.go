package layout

import "fmt"

// Kind names a layout of records. The number goes into heads of tables and into descriptors.
type Kind uint8

// Layouts.
const (
	// KindOneVersion is OneVersion: DrTM's entry.
	KindOneVersion Kind = iota + 1
	// KindLineVersions is LineVersions: FaRM's object.
	KindLineVersions
	// KindSealed is Sealed: a record that one READ proves without line words.
	KindSealed
)

// Index names an index: how a key leads to its record. The number goes into heads of tables and
// into descriptors.
type Index uint8

// Indexes.
const (
	// ClusterChaining is DrTM's hash table (§6.2): main buckets, and chains of indirect ones.
	ClusterChaining Index = iota + 1
	// GrowingClusters is several of them, in extents that a directory names: see Extent.
	GrowingClusters
	// HopscotchInline is FaRM's: records inside of the slots of their neighbourhood.
	HopscotchInline
	// BPlusTree is an ordered table: see NodeHead. Peers look nothing up in it by READs.
	BPlusTree
	// GrowingTrees is several of them, in extents that a directory names: see Extent.
	GrowingTrees
	// Robinhoods is Xenic's host table: see Segment. NICs look keys up in it by DMA, other nodes do not.
	Robinhoods
	// DLHT is Dandelion's hash table, in the memory of its process, with the records in registered memory (package
	// records). Peers look nothing up in it by READs.
	DLHT
)

// kind describes a Kind or an Index. The version is raised with every change of its bytes.
type kind struct {
	name    string
	version uint8
}

var (
	kinds = [...]kind{
		KindOneVersion:   {"one-version", 1},
		KindLineVersions: {"line-versions", 2},
		KindSealed:       {"sealed", 1},
	}
	indexes = [...]kind{
		ClusterChaining: {"cluster-chaining", 1},
		GrowingClusters: {"growing-clusters", 1},
		HopscotchInline: {"hopscotch", 1},
		BPlusTree:       {"b+tree", 1},
		GrowingTrees:    {"growing-b+trees", 1},
		Robinhoods:      {"robinhood", 1},
		DLHT:            {"dlht", 1},
	}
)

// Ordered reports whether the index knows the order of its keys.
func (i Index) Ordered() bool { return i == BPlusTree || i == GrowingTrees }

func (k Kind) String() string  { return named("layout", kinds[:], uint8(k)) }
func (i Index) String() string { return named("index", indexes[:], uint8(i)) }

// Version is that of the bytes of the layout; 0: this program does not know it.
func (k Kind) Version() uint8 { return versionOf(kinds[:], uint8(k)) }

// Version is that of the bytes of the index; 0: this program does not know it.
func (i Index) Version() uint8 { return versionOf(indexes[:], uint8(i)) }

// Or is k, or d if k is 0.
func (k Kind) Or(d Kind) Kind {
	if k == 0 {
		return d
	}
	return k
}

// Or is i, or d if i is 0.
func (i Index) Or(d Index) Index {
	if i == 0 {
		return d
	}
	return i
}

func named(what string, list []kind, i uint8) string {
	if versionOf(list, i) == 0 {
		return fmt.Sprintf("%s(%d)", what, i)
	}
	return list[i].name
}

func versionOf(list []kind, i uint8) uint8 {
	if int(i) >= len(list) {
		return 0
	}
	return list[i].version
}

// checkKind refuses a kind that this program does not know, or knows in another version.
func checkKind(what string, list []kind, i, version uint8) error {
	switch known := versionOf(list, i); {
	case known == 0:
		return fmt.Errorf("%w: %s %d is unknown to this program: run the same version of drtmd on all "+
			"nodes", ErrDescriptor, what, i)
	case known != version:
		return fmt.Errorf("%w: %s %s in version %d, where this program speaks %d: run the same version "+
			"of drtmd on all nodes", ErrDescriptor, what, list[i].name, version, known)
	}
	return nil
}
