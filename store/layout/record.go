package layout

import "encoding/binary"

// Layout is how a record with a header and a value lies in memory, and what a READ of it proves.
// Layouts have no state.
type Layout interface {
	Kind() Kind
	// Bytes of a record whose value has n bytes: what one READ fetches.
	Bytes(n int) int
	// Room is the memory beside an image that Value needs for values of n bytes; 0: the value lies
	// in the image in one piece.
	Room(n int) int
	// Value is the value in an image: a part of the image, or a copy in room, which has the length
	// of the value.
	Value(image, room []byte) []byte
	// Put makes an image that of a record with a version and a value, for the key that it has, whatever
	// its state. The value may be what Value gave of this image. An absent version has none.
	Put(image []byte, v Version, value []byte)
	// Update says which parts of an image with a value of n bytes an update writes, one after the other:
	// the version, and the value with what belongs to it, if there is one. The key and the state are never
	// among them.
	Update(n int) (version, value Span)
	// Whole reports whether an image is that of one version, if a READ that is atomic per line
	// fetched it while others may have written the record. False means: look at the header again,
	// behind the READ; if it is unlocked, and as it was, the image is whole as well.
	Whole(image []byte) bool
}

// Span is a part of an image.
type Span struct{ From, To int }

// Len is how long it is.
func (s Span) Len() int { return s.To - s.From }

// layouts by kind.
var layouts = [...]Layout{KindOneVersion: OneVersion{}, KindLineVersions: LineVersions{}, KindSealed: Sealed{}}

// Of is the layout of a kind that has a Version.
func Of(k Kind) Layout { return layouts[k] }

// Record is a layout with the sizes of one table's records. It is the Layout for the hot path: where
// the value lies in one piece there is no indirect call.
type Record struct {
	Layout
	ValueBytes int
	Bytes      int // Layout.Bytes
	Stride     int // from one record of a table to the next: Bytes in whole lines
	Room       int // Layout.Room
	Seal       int // offset of the seal (Sealed); 0: there is none
	// VersionPart and ValuePart are Layout.Update.
	VersionPart, ValuePart Span
}

// NewRecord describes records with values of n bytes.
func NewRecord(k Kind, n int) Record {
	l := Of(k)
	bytes := l.Bytes(n)
	r := Record{Layout: l, ValueBytes: n, Bytes: bytes, Room: l.Room(n),
		Stride: (bytes + EntryAlignment - 1) &^ (EntryAlignment - 1)}
	r.VersionPart, r.ValuePart = l.Update(n)
	if k == KindSealed {
		r.Seal = bytes - sealBytes
	}
	return r
}

// Fit is the largest value of a record that takes some lines.
func Fit(k Kind, lines int) int {
	n := lines*LineBytes - HeaderBytes
	for l := Of(k); l.Bytes(n) > lines*LineBytes; {
		n--
	}
	return n
}

// Value is Layout.Value.
func (r *Record) Value(image, room []byte) []byte {
	if r.Room == 0 {
		return image[ValueOffset : ValueOffset+r.ValueBytes]
	}
	return r.Layout.Value(image[:r.Bytes], room[:r.ValueBytes])
}

// Put is Layout.Put.
func (r *Record) Put(image []byte, v Version, value []byte) {
	r.Layout.Put(image[:r.Bytes], v, value)
}

// Whole is Layout.Whole.
func (r *Record) Whole(image []byte) bool { return r.Layout.Whole(image[:r.Bytes]) }

// Head is the header of a record.
type Head struct {
	Key     uint64
	Version Version
	State   uint64
}

// HeadOf is the header in an image.
func HeadOf(image []byte) Head {
	_ = image[HeaderBytes-1]
	return Head{Key: binary.LittleEndian.Uint64(image[KeyOffset:]),
		Version: Version(binary.LittleEndian.Uint64(image[VersionOffset:])),
		State:   binary.LittleEndian.Uint64(image[StateOffset:])}
}

// Match is the function of this name.
func (h Head) Match(key uint64) Presence { return Match(key, h.Key, h.Version) }

func setVersion(image []byte, v Version) {
	binary.LittleEndian.PutUint64(image[VersionOffset:], uint64(v))
}

// OneVersion is DrTM's entry (§6.2), with one version for all of the record:
//
//	+0   key      8
//	+8   version  8
//	+16  state    8
//	+24  value    n
//
// A READ proves a record of one line, which nobody has locked: what is written under the lock comes
// after the lock, and a line is read at one moment. Of longer records it proves nothing.
type OneVersion struct{}

// Kind implements Layout.
func (OneVersion) Kind() Kind { return KindOneVersion }

// Bytes implements Layout.
func (OneVersion) Bytes(n int) int { return HeaderBytes + n }

// Room implements Layout.
func (OneVersion) Room(int) int { return 0 }

// Value implements Layout.
func (OneVersion) Value(image, _ []byte) []byte { return image[ValueOffset:] }

// Put implements Layout.
func (OneVersion) Put(image []byte, v Version, value []byte) {
	setVersion(image, v)
	if v.Live() {
		copy(image[ValueOffset:], value)
	}
}

// Update implements Layout.
func (OneVersion) Update(n int) (version, value Span) {
	return Span{VersionOffset, VersionOffset + 8}, Span{ValueOffset, ValueOffset + n}
}

// Whole implements Layout.
func (OneVersion) Whole(image []byte) bool {
	h := HeadOf(image)
	return len(image) <= LineBytes && !Locked(h.State)
}
