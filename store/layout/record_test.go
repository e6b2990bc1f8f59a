package layout

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

func eachKind(t *testing.T, test func(*testing.T, Kind)) {
	for k := range Kind(len(kinds)) {
		if k.Version() > 0 {
			t.Run(k.String(), func(t *testing.T) { test(t, k) })
		}
	}
}

func TestEveryKindHasItsLayout(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		if Of(k).Kind() != k {
			t.Errorf("%v has layout %v", k, Of(k).Kind())
		}
	})
	if k := Kind(len(kinds)); k.Version() != 0 || k.String() != "layout(4)" {
		t.Errorf("an unknown layout is %v in version %d", k, k.Version())
	}
}

func TestRecordSizes(t *testing.T) {
	for _, c := range []struct {
		kind                       Kind
		value, bytes, stride, room int
	}{
		{KindOneVersion, 1, 25, 64, 0},
		{KindOneVersion, 40, 64, 64, 0},
		{KindOneVersion, 41, 65, 128, 0},
		{KindOneVersion, MaxValueBytes, 4120, 4160, 0},
		{KindLineVersions, 1, 25, 64, 0},
		{KindLineVersions, 40, 64, 64, 0},
		{KindLineVersions, 41, 64 + 9, 128, 41},
		{KindLineVersions, 40 + 56, 128, 128, 96},
		{KindLineVersions, 40 + 56 + 1, 128 + 9, 192, 97},
		{KindLineVersions, MaxValueBytes, 64 + 72*64 + 32, 4736, MaxValueBytes},
		{KindSealed, 1, 24 + 8 + 8, 64, 0},
		{KindSealed, 32, 64, 64, 0},
		{KindSealed, 33, 24 + 40 + 8, 128, 0},
	} {
		r := NewRecord(c.kind, c.value)
		if r.Bytes != c.bytes || r.Stride != c.stride || r.Room != c.room {
			t.Errorf("%v, values of %d bytes: %d bytes, stride %d, room %d; want %d, %d, %d", c.kind,
				c.value, r.Bytes, r.Stride, r.Room, c.bytes, c.stride, c.room)
		}
	}
}

func TestFitIsTheLargestValueOfSomeLines(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		for lines := 1; lines < 20; lines++ {
			n := Fit(k, lines)
			if l := Of(k); l.Bytes(n) > lines*LineBytes || l.Bytes(n+1) <= lines*LineBytes {
				t.Errorf("%d lines: values of %d bytes take %d, of one more %d", lines, n, l.Bytes(n),
					l.Bytes(n+1))
			}
		}
	})
}

// TestARecordIsItsLastValue puts values, absences and states into an image at random, and compares it
// with a variable.
func TestARecordIsItsLastValue(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		rapid.Check(t, func(t *rapid.T) {
			r := NewRecord(k, rapid.IntRange(1, 300).Draw(t, "value bytes"))
			image, room := make([]byte, r.Bytes+8), make([]byte, r.Room)
			want, v, state := make([]byte, r.ValueBytes), Fresh(0), uint64(0)
			le := binary.LittleEndian
			le.PutUint64(image[KeyOffset:], 7)
			r.Put(image, v, nil)
			t.Repeat(map[string]func(*rapid.T){
				"put": func(t *rapid.T) {
					v = next(v)
					copy(want, rapid.SliceOfN(rapid.Byte(), r.ValueBytes, r.ValueBytes).Draw(t, "v"))
					r.Put(image, v, want)
				},
				"put what it has": func(t *rapid.T) {
					if v.Live() {
						v = next(v)
						r.Put(image, v, r.Value(image, room))
					}
				},
				"delete": func(t *rapid.T) {
					if v.Live() {
						v = v.Deleted()
						r.Put(image, v, nil)
					}
				},
				"lock": func(t *rapid.T) {
					state ^= 1
					le.PutUint64(image[StateOffset:], state)
				},
				"": func(t *rapid.T) {
					if got := HeadOf(image); got != (Head{7, v, state}) {
						t.Fatalf("the header is %+v, want version %v and state %d", got, v, state)
					}
					if v.Live() && !bytes.Equal(r.Value(image, room), want) {
						t.Fatalf("value %x, want %x", r.Value(image, room), want)
					}
					proves := !Locked(state) && (k == KindLineVersions || r.Bytes <= LineBytes)
					if k == KindSealed {
						proves = v.Live()
					}
					if r.Whole(image) != proves {
						t.Fatalf("%d bytes, state %d, version %v: whole %v", r.Bytes, state, v, !proves)
					}
					if !bytes.Equal(image[r.Bytes:], make([]byte, 8)) {
						t.Fatal("bytes behind the record have changed")
					}
				},
			})
		})
	})
}

func next(v Version) Version {
	if v.Live() {
		return v.Written()
	}
	return v.Inserted()
}

func TestRecordsDoNotAllocate(t *testing.T) {
	eachKind(t, func(t *testing.T, k Kind) {
		r := NewRecord(k, 100)
		image, room, value := make([]byte, r.Bytes), make([]byte, 100), make([]byte, 100)
		var sum byte
		if n := testing.AllocsPerRun(100, func() {
			r.Put(image, FirstVersion, value)
			if r.Whole(image) {
				sum++
			}
			sum += r.Value(image, room)[99]
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
