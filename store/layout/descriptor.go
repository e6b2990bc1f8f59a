package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// DescriptorBytes is the size of an encoded Descriptor.
const DescriptorBytes = 48

// descriptorVersion is that of the encoding; layout and index have versions of their own.
const descriptorVersion = 2

var descriptorMagic = [4]byte{'d', 'R', 'T', 'd'}

// ErrDescriptor: the bytes are no descriptor of a table of this version.
var ErrDescriptor = errors.New("bad table descriptor")

// Descriptor is what a peer must know of a table to look keys up in it, beside the memory region
// in which it stands. It is meant to be sent, with the versions of layout and index: who speaks
// others refuses it.
type Descriptor struct {
	Table      uint16 // its id
	Layout     Kind
	Index      Index
	ValueBytes uint32 // of each value
	// MainOffset is that of the first main bucket, in bytes from the start of the region; of a hopscotch
	// table of its first slot, of an ordered one of its first node, of a Robinhood table of its first segment
	// word, of a table of index DLHT of its first record. MainBuckets is the number of main buckets, of homes, of
	// nodes, or of records.
	MainOffset  uint64
	MainBuckets uint64
	// End of the table, or of the first extent of one that grows: nothing of it lies at or beyond, but
	// the directory of extents.
	End uint64
}

// Counter is where the incarnation counter stands, in bytes from the start of the region.
func (d *Descriptor) Counter() uint64 {
	head := uint64(TableHeadBytes)
	switch {
	case d.Index == HopscotchInline:
		head = HopscotchHeadBytes
	case d.Index.Ordered():
		head = TreeHeadBytes
	case d.Index == Robinhoods:
		head = RobinhoodHeadBytes
	case d.Index == DLHT:
		head = RecordsHeadBytes
	}
	return d.MainOffset - head + CounterOffset
}

// Reach is the end of everything that peers READ in the memory region.
func (d *Descriptor) Reach() uint64 {
	if d.Index == GrowingClusters || d.Index == GrowingTrees {
		return d.End + DirectoryBytes
	}
	return d.End
}

// BucketOffset is where a key's main bucket stands, in bytes from the start of the region.
func (d *Descriptor) BucketOffset(key uint64) uint64 {
	return d.MainOffset + BucketIndex(key, d.MainBuckets)*BucketBytes
}

// BucketIndex is the number of a key's main bucket, of n.
func BucketIndex(key, n uint64) uint64 {
	i, _ := bits.Mul64(Hash(key), n)
	return i
}

// Hash spreads keys over 64 bits: the finalizer of MurmurHash3 (Appleby, public domain). Dense
// keys fill buckets like random ones do.
func Hash(k uint64) uint64 {
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}

// Bucket reports whether a bucket can stand at an offset, which came from memory.
func (d *Descriptor) Bucket(offset uint64) bool {
	return offset%BucketBytes == 0 && offset >= d.MainOffset && offset < d.End &&
		d.End-offset >= BucketBytes
}

// Entry reports whether an entry can stand at an offset, which came from memory.
func (d *Descriptor) Entry(offset uint64) bool {
	switch d.Index {
	case HopscotchInline:
		h := d.Hopscotch()
		return offset < d.End && h.IsSlot(int(offset))
	case Robinhoods: // nobody reads there who needs to know
		return false
	case DLHT:
		return offset >= d.MainOffset && offset < d.End && (offset-d.MainOffset)%d.stride() == 0
	}
	unit := uint64(BucketBytes)
	if d.Index.Ordered() {
		unit = NodeBytes
	}
	return offset%EntryAlignment == 0 && offset >= d.MainOffset+d.MainBuckets*unit &&
		offset < d.End && d.End-offset >= uint64(Of(d.Layout).Bytes(int(d.ValueBytes)))
}

// stride is what the records of a table of index DLHT are apart.
func (d *Descriptor) stride() uint64 {
	r := d.Record()
	return uint64(r.Stride)
}

// Record describes the table's records.
func (d *Descriptor) Record() Record { return NewRecord(d.Layout, int(d.ValueBytes)) }

// MarshalBinary encodes the descriptor, little endian:
//
//	 0  magic "dRTd" 4 | version 2 | table 2
//	 8  value bytes 4 | layout 1 | its version 1 | index 1 | its version 1
//	16  main offset 8
//	24  main buckets 8
//	32  end 8
//	40  zero 8
func (d Descriptor) MarshalBinary() ([]byte, error) {
	b := make([]byte, DescriptorBytes)
	copy(b, descriptorMagic[:])
	binary.LittleEndian.PutUint16(b[4:], descriptorVersion)
	binary.LittleEndian.PutUint16(b[6:], d.Table)
	binary.LittleEndian.PutUint32(b[8:], d.ValueBytes)
	b[12], b[13] = uint8(d.Layout), d.Layout.Version()
	b[14], b[15] = uint8(d.Index), d.Index.Version()
	binary.LittleEndian.PutUint64(b[16:], d.MainOffset)
	binary.LittleEndian.PutUint64(b[24:], d.MainBuckets)
	binary.LittleEndian.PutUint64(b[32:], d.End)
	return b, nil
}

// UnmarshalBinary decodes and checks a descriptor. Every failure is an ErrDescriptor; d is left
// alone then.
func (d *Descriptor) UnmarshalBinary(b []byte) error {
	if len(b) != DescriptorBytes {
		return fmt.Errorf("%w: %d bytes, want %d", ErrDescriptor, len(b), DescriptorBytes)
	}
	if [4]byte(b) != descriptorMagic {
		return fmt.Errorf("%w: magic %q", ErrDescriptor, b[:4])
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != descriptorVersion {
		return fmt.Errorf("%w: version %d, this program speaks %d", ErrDescriptor, v,
			descriptorVersion)
	}
	if binary.LittleEndian.Uint64(b[40:]) != 0 {
		return fmt.Errorf("%w: reserved bytes are set", ErrDescriptor)
	}
	if err := checkKind("layout", kinds[:], b[12], b[13]); err != nil {
		return err
	}
	if err := checkKind("index", indexes[:], b[14], b[15]); err != nil {
		return err
	}
	n := Descriptor{
		Table:       binary.LittleEndian.Uint16(b[6:]),
		Layout:      Kind(b[12]),
		Index:       Index(b[14]),
		ValueBytes:  binary.LittleEndian.Uint32(b[8:]),
		MainOffset:  binary.LittleEndian.Uint64(b[16:]),
		MainBuckets: binary.LittleEndian.Uint64(b[24:]),
		End:         binary.LittleEndian.Uint64(b[32:]),
	}
	if err := n.check(); err != nil {
		return err
	}
	*d = n
	return nil
}

// check reports whether the fields fit each other.
func (d *Descriptor) check() error {
	switch {
	case d.ValueBytes == 0 || d.ValueBytes > MaxValueBytes:
		return fmt.Errorf("%w: values of %d bytes", ErrDescriptor, d.ValueBytes)
	case d.End > MaxOffset-DirectoryBytes || d.MainOffset > d.End || d.MainOffset == 0 ||
		d.MainOffset%BucketBytes != 0:
		return fmt.Errorf("%w: from offset %d to %d", ErrDescriptor, d.MainOffset, d.End)
	case d.Index == HopscotchInline:
		return d.checkHopscotch()
	case d.Index.Ordered():
		if d.MainOffset < TreeHeadBytes || d.MainBuckets == 0 ||
			d.MainBuckets > (d.End-d.MainOffset)/NodeBytes {
			return fmt.Errorf("%w: %d nodes do not fit from offset %d to %d", ErrDescriptor, d.MainBuckets,
				d.MainOffset, d.End)
		}
	case d.Index == Robinhoods:
		if d.MainOffset < RobinhoodHeadBytes || d.MainBuckets == 0 ||
			d.MainBuckets > (d.End-d.MainOffset)/PointerSlotBytes {
			return fmt.Errorf("%w: %d homes do not fit from offset %d to %d", ErrDescriptor, d.MainBuckets,
				d.MainOffset, d.End)
		}
	case d.Index == DLHT:
		if d.MainOffset < RecordsHeadBytes || d.MainBuckets == 0 ||
			d.MainBuckets > (d.End-d.MainOffset)/d.stride() {
			return fmt.Errorf("%w: %d records do not fit from offset %d to %d", ErrDescriptor, d.MainBuckets,
				d.MainOffset, d.End)
		}
	case d.MainBuckets == 0 || d.MainBuckets > (d.End-d.MainOffset)/BucketBytes:
		return fmt.Errorf("%w: %d main buckets do not fit in %d bytes", ErrDescriptor,
			d.MainBuckets, d.End-d.MainOffset)
	}
	return nil
}
