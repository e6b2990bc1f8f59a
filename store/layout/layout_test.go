package layout

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSlotWord is Figure 12's slot: type 2 bits, lossy incarnation 14, offset 48.
func TestSlotWord(t *testing.T) {
	for _, c := range []struct {
		slot Slot
		want uint64
		text string
	}{
		{0, 0, "free"},
		{MakeSlot(Entry, 0, 0), 1 << 62, "entry at 0, lossy 0"},
		{MakeSlot(Header, 1, 64), 2<<62 | 1<<48 | 64, "header at 64, lossy 1"},
		{MakeSlot(Cached, MaxLossy, MaxOffset), 1<<64 - 1,
			"cached at 281474976710655, lossy 16383"},
	} {
		if uint64(c.slot) != c.want || c.slot.String() != c.text {
			t.Errorf("%#x, %s; want %#x, %s", uint64(c.slot), c.slot, c.want, c.text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]Type{Free, Entry, Header, Cached}).Draw(t, "type")
		l := Lossy(rapid.Uint16Range(0, MaxLossy).Draw(t, "lossy"))
		off := rapid.Uint64Range(0, MaxOffset).Draw(t, "offset")
		s := MakeSlot(kind, l, off)
		if s.Type() != kind || s.Lossy() != l || s.Offset() != off {
			t.Fatalf("%s from %s, %d, %d", s, kind, l, off)
		}
	})
}

func TestSizes(t *testing.T) {
	if BucketSlots != 8 || LinkSlot != 7 || len(Bucket{})*8 != BucketBytes {
		t.Error("a bucket is not eight slots of 16 bytes")
	}
	for _, c := range []struct{ value, stride int }{
		{1, 64}, {8, 64}, {40, 64}, {41, 128}, {MaxValueBytes, 4160},
	} {
		if got := NewRecord(KindOneVersion, c.value).Stride; got != c.stride {
			t.Errorf("values of %d bytes are %d apart, want %d", c.value, got, c.stride)
		}
	}
}

func TestVersionsGrowAndSayWhatTheyStandFor(t *testing.T) {
	for _, c := range []struct {
		name             string
		v                Version
		live, unbound    bool
		trace            Version
		text             string
		written, deleted Version // of a live one; inserted, 0 of an absent one
	}{
		{"fresh", Fresh(0), false, false, 0, "0.2 (absent)", MakeVersion(1, 0), 0},
		{"fresh after others", Fresh(6), false, false, 0, "6.2 (absent)", MakeVersion(7, 0), 0},
		{"first", FirstVersion, true, false, 0, "1.0", MakeVersion(1, 1), MakeVersion(2, 0)},
		{"written", MakeVersion(1, 5), true, false, 0, "1.5", MakeVersion(1, 6), MakeVersion(2, 0)},
		{"about to wrap", MakeVersion(1, 1<<32-1), true, false, 0, "1.4294967295",
			MakeVersion(3, 0), MakeVersion(2, 0)},
		{"deleted", MakeVersion(2, 0), false, false, MakeVersion(2, 0), "2.0 (deleted)",
			MakeVersion(3, 0), 0},
		{"given back", MakeVersion(2, 0).Unbind(), false, true, 0, "2.1 (unbound)",
			MakeVersion(3, 0), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.v.Live() != c.live || c.v.Unbound() != c.unbound || c.v.String() != c.text {
				t.Errorf("%s: live %v, unbound %v", c.v, c.v.Live(), c.v.Unbound())
			}
			if !c.live {
				if c.v.Trace() != c.trace || c.v.Inserted() != c.written {
					t.Errorf("trace %s, inserted %s", c.v.Trace(), c.v.Inserted())
				}
			} else if c.v.Written() != c.written || c.v.Deleted() != c.deleted {
				t.Errorf("written %s, deleted %s", c.v.Written(), c.v.Deleted())
			}
			for _, next := range []Version{c.written, c.deleted} {
				if next != 0 && next <= c.v {
					t.Errorf("%s does not come after %s", next, c.v)
				}
			}
		})
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		name    string
		keyWord uint64
		v       Version
		want    Presence
	}{
		{"value", 5, FirstVersion, Live},
		{"tombstone", 5, FirstVersion.Deleted(), Absent},
		{"not inserted yet", 5, Fresh(4), Absent},
		{"given back", 5, FirstVersion.Deleted().Unbind(), Stale},
		{"another key's", 6, FirstVersion, Stale},
		{"another absent key's", 6, FirstVersion.Deleted(), Stale},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Match(5, c.keyWord, c.v); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func good() Descriptor {
	return Descriptor{Table: 3, Layout: KindLineVersions, Index: ClusterChaining, ValueBytes: 100,
		MainOffset: 1280, MainBuckets: 10, End: 1280 + 128*20}
}

func encode(t testing.TB, d Descriptor) []byte {
	t.Helper()
	b, err := d.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDescriptorIsRefused(t *testing.T) {
	put := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	for _, c := range []struct {
		name string
		edit func([]byte) []byte
		ok   bool
	}{
		{"unless it is good", func(b []byte) []byte { return b }, true},
		{"if empty", func([]byte) []byte { return nil }, false},
		{"if cut", func(b []byte) []byte { return b[:47] }, false},
		{"if too long", func(b []byte) []byte { return append(b, 0) }, false},
		{"with another magic", func(b []byte) []byte { b[0] = 'x'; return b }, false},
		{"of another version", func(b []byte) []byte { b[4]--; return b }, false},
		{"with reserved bytes at the end", put(40, 1), false},
		{"without values", put(8, 0), false},
		{"with large values", put(8, MaxValueBytes+1), false},
		{"with buckets at 0", put(16, 0), false},
		{"with buckets at an odd place", put(16, 1281), false},
		{"with buckets behind its end", put(16, 1<<40), false},
		{"without buckets", put(24, 0), false},
		{"with more buckets than fit", put(24, 21), false},
		{"with buckets that overflow", put(24, 1<<62), false},
		{"beyond what slots can name", put(32, MaxOffset+1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Descriptor
			err := d.UnmarshalBinary(c.edit(encode(t, good())))
			if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrDescriptor) {
				t.Fatal(err)
			}
			if want := good(); c.ok && d != want || !c.ok && d != (Descriptor{}) {
				t.Errorf("decoded %+v", d)
			}
		})
	}
}

// goodHopscotch has 10 homes and 3 overflow blocks of two slots with 192 bytes each.
func goodHopscotch() Descriptor {
	return Descriptor{Table: 3, Layout: KindLineVersions, Index: HopscotchInline, ValueBytes: 100,
		MainOffset: 1280, MainBuckets: 10, End: 1280 + 192*(17+6)}
}

// TestDescriptorOfRobinhoodIsRefused: with homes that do not fit, or no room for the head.
func TestDescriptorOfRobinhoodIsRefused(t *testing.T) {
	good := Descriptor{Table: 3, Layout: KindLineVersions, Index: Robinhoods, ValueBytes: 100,
		MainOffset: RobinhoodHeadBytes, MainBuckets: 10, End: RobinhoodHeadBytes + 2000}
	for _, c := range []struct {
		name string
		edit func(*Descriptor)
		ok   bool
	}{
		{"unless it is good", func(*Descriptor) {}, true},
		{"without homes", func(d *Descriptor) { d.MainBuckets = 0 }, false},
		{"with more homes than fit", func(d *Descriptor) { d.MainBuckets = 126 }, false},
		{"without a head", func(d *Descriptor) { d.MainOffset -= BucketBytes }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := good
			c.edit(&d)
			var back Descriptor
			if err := back.UnmarshalBinary(encode(t, d)); (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}

// TestSegmentWordsCountWhatAReaderCanMiss: a displacement that falls is counted, one that rises and a new block are not.
func TestSegmentWordsCountWhatAReaderCanMiss(t *testing.T) {
	s := Segment(0).Displaced(9).Linked(MakeBlockLink(MaxOverflowBlocks - 1))
	if n, ok := s.Block(); s.Count() != 0 || s.Displacement() != 9 || n != MaxOverflowBlocks-1 || !ok {
		t.Errorf("%v", s)
	}
	if s = s.Displaced(3); s.Count() != 1 || s.Displacement() != 3 {
		t.Errorf("%v", s)
	}
	for range 1<<24 - 2 {
		s = s.Counted()
	}
	if n, _ := s.Block(); s.Count() != 1<<24-1 || s.Counted().Count() != 0 || n != MaxOverflowBlocks-1 {
		t.Errorf("%v", s)
	}
}

// TestDescriptorOfHopscotchIsRefused.
func TestDescriptorOfHopscotchIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Descriptor)
		ok   bool
	}{
		{"unless it is good", func(*Descriptor) {}, true},
		{"without homes", func(d *Descriptor) { d.MainBuckets = 0 }, false},
		{"with more homes than fit", func(d *Descriptor) { d.MainBuckets = 17 }, false},
		{"with homes that overflow", func(d *Descriptor) { d.MainBuckets = 1<<64 - 3 }, false},
		{"with half a slot", func(d *Descriptor) { d.End += 64 }, false},
		{"with half a block", func(d *Descriptor) { d.End += 192 }, false},
		{"without blocks", func(d *Descriptor) { d.End = 1280 + 192*17 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := goodHopscotch()
			c.edit(&want)
			var d Descriptor
			err := d.UnmarshalBinary(encode(t, want))
			if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrDescriptor) || c.ok && d != want {
				t.Fatalf("%+v, %v", d, err)
			}
		})
	}
	d := goodHopscotch()
	h := d.Hopscotch()
	if h != (Hopscotch{Slots: 1280, Homes: 10, Blocks: 3, Stride: 192}) {
		t.Errorf("%+v", h)
	}
	for off, want := range map[uint64]bool{1280: true, 1280 + 192: true, 1280 + 192*22: true, 1279: false,
		1280 + 64: false, 1280 + 192*23: false, 0: false, 1 << 60: false} {
		if d.Entry(off) != want {
			t.Errorf("offset %d is a record's: %v", off, !want)
		}
	}
}

// TestHopWord: what the word says, and that its count rises with every change and wraps.
func TestHopWord(t *testing.T) {
	h := Hop(0)
	if _, ok := h.Block(); ok || h.Map() != 0 || h.Moving() {
		t.Errorf("%v", h)
	}
	last := h
	for _, c := range []struct {
		to   Hop
		text string
	}{
		{h.With(3), "00001000, no block, 2 changes"},
		{h.With(3).With(0), "00001001, no block, 4 changes"},
		{h.With(3).With(0).Begun(), "00001001, no block, 5 changes"},
		{h.With(3).With(0).Begun().Moved(0, 7), "10001000, no block, 6 changes"},
		{h.With(3).With(0).Begun().Moved(0, 7).Linked(MakeBlockLink(MaxBlocks - 1)),
			"10001000, block 4294967294, 8 changes"},
		{h.With(3).With(0).Begun().Moved(0, 7).Linked(MakeBlockLink(MaxBlocks - 1)).Without(7),
			"00001000, block 4294967294, 10 changes"},
	} {
		if c.to.String() != c.text || c.to.Count() <= last.Count() || c.to.Moving() != (c.to.Count()%2 == 1) {
			t.Errorf("%v, want %s", c.to, c.text)
		}
		last = c.to
	}
	if b, ok := last.Block(); !ok || b != MaxBlocks-1 {
		t.Errorf("block %d, %v", b, ok)
	}
	if h = last | 0xffffff<<40; h.With(1).Count() != 1 || h.With(1).Map() != last.Map()|2 {
		t.Errorf("%v after %v", h.With(1), h)
	}
}

// TestDescriptorOfAnotherLayoutOrIndexIsRefusedInWords.
func TestDescriptorOfAnotherLayoutOrIndexIsRefusedInWords(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int
		to   byte
		text string
	}{
		{"no layout", 12, 0, "layout 0 is unknown to this program: run the same version"},
		{"a layout of tomorrow", 12, 200, "layout 200 is unknown to this program"},
		{"a layout in another version", 13, 9,
			"layout line-versions in version 9, where this program speaks 2: run the same version"},
		{"no index", 14, 0, "index 0 is unknown to this program"},
		{"an index of tomorrow", 14, 200, "index 200 is unknown to this program"},
		{"an index in another version", 15, 9,
			"index cluster-chaining in version 9, where this program speaks 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := encode(t, good())
			b[c.at] = c.to
			var d Descriptor
			err := d.UnmarshalBinary(b)
			if !errors.Is(err, ErrDescriptor) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %q", err, c.text)
			}
		})
	}
}

// TestHalfALineOfTheDirectoryIsNoExtent mixes the words of two lines, as a READ that is not atomic per
// line does.
func TestHalfALineOfTheDirectoryIsNoExtent(t *testing.T) {
	was := ExtentWords{}
	e := Extent{Addr: 1 << 40, Length: 4096, RKey: 7, MainBuckets: 3, IndirectBuckets: 5, Entries: 9, End: 4000}
	is := e.Words(4)
	if got, ok := is.Extent(4); !ok || got != e {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := is.Extent(5); ok {
		t.Error("the line of extent 4 is taken for that of 5")
	}
	for mix := range 1<<len(is) - 1 {
		w := was
		for i := range w {
			if mix>>i&1 == 1 {
				w[i] = is[i]
			}
		}
		if got, ok := w.Extent(4); ok {
			t.Errorf("words %08b of a line: %+v", mix, got)
		}
	}
	if x, off := SplitPlace(MakePlace(31, MaxOffset)); x != 31 || off != MaxOffset {
		t.Errorf("a place is extent %d, offset %#x", x, off)
	}
	d := good()
	d.Index = GrowingClusters
	if x, ok := e.Of(d); !ok || x.Index != ClusterChaining || x.End != e.End || x.MainOffset != TableHeadBytes {
		t.Errorf("extent %+v has descriptor %+v, %v", e, x, ok)
	}
	for name, bad := range map[string]Extent{
		"beyond its region": {Length: 4096, MainBuckets: 3, End: 4224},
		"without buckets":   {Length: 4096, End: 4096},
		"before its head":   {Length: 4096, MainBuckets: 1, End: 1000},
	} {
		if x, ok := bad.Of(d); ok {
			t.Errorf("an extent %s has descriptor %+v", name, x)
		}
	}
	if d.Reach() != d.End+DirectoryBytes {
		t.Error("peers do not reach the directory")
	}
}

// FuzzDescriptor: whatever is accepted leads every key and offset to places inside of the table.
func FuzzDescriptor(f *testing.F) {
	f.Add(encode(f, good()), uint64(1), uint64(1<<40))
	f.Add([]byte("dRTd"), uint64(0), uint64(0))
	f.Add(encode(f, goodHopscotch()), uint64(1), uint64(1<<40))
	f.Fuzz(func(t *testing.T, b []byte, key, off uint64) {
		var d Descriptor
		if err := d.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrDescriptor) || d != (Descriptor{}) {
				t.Fatalf("%v, %+v", err, d)
			}
			return
		}
		if again := encode(t, d); string(again) != string(b) {
			t.Fatalf("%x becomes %x", b, again)
		}
		if d.Index == HopscotchInline {
			h := d.Hopscotch()
			if at := h.Slot(h.Home(key)); at < int(d.MainOffset) || at+h.NeighbourhoodBytes() > h.Block(0) ||
				uint64(h.End()) != d.End {
				t.Errorf("key %d has its home at %d of %+v", key, at, d)
			}
		} else if at := d.BucketOffset(key); d.Index != Robinhoods && !d.Bucket(at) {
			t.Errorf("key %d has its bucket at %d of %+v", key, at, d)
		}
		r := d.Record()
		if d.Bucket(off) && off+BucketBytes > d.End || d.Entry(off) &&
			off+uint64(r.Bytes) > d.End {
			t.Errorf("offset %d is inside of %+v", off, d)
		}
	})
}
