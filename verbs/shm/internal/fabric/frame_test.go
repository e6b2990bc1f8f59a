//go:build linux && amd64

package fabric

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	testFrom = ProcID{Slot: 3, Incarnation: 0x0123456789abcdef}
	testTo   = ProcID{Slot: MaxProcs - 1, Incarnation: 1}
)

// goodFrames are one of each operation.
func goodFrames() []frame {
	return []frame{
		{op: opFetchSegment, from: testFrom, to: testTo, seq: 1, payload: encodeID(7)},
		{op: opFetchEvent, from: testFrom, to: testTo, seq: 2, payload: encodeID(0)},
		{op: opCall, kind: 255, from: testFrom, to: testTo, seq: 3, payload: []byte{}},
		{op: opCall, from: testFrom, to: testTo, payload: make([]byte, MaxMessage)},
		{op: opReply, status: statusOK, from: testTo, to: testFrom, seq: 1,
			payload: segmentInfo{size: 64, kept: "log"}.append(nil)},
		{op: opReply, status: statusWrongTarget, from: testTo, to: testFrom, payload: []byte{}},
	}
}

func TestFrameRoundTrip(t *testing.T) {
	for _, f := range goodFrames() {
		got, err := parseFrame(f.appendTo(nil))
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%s: got %+v, %v", f.op, got, err)
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
	}{
		{"nothing", func([]byte) []byte { return nil }},
		{"half a head", func(b []byte) []byte { return b[:frameHeadBytes/2] }},
		{"payload cut", func(b []byte) []byte { return b[:len(b)-1] }},
		{"payload longer than said", func(b []byte) []byte { return append(b, 0) }},
		{"over the limit", func(b []byte) []byte { return append(b, make([]byte, MaxMessage)...) }},
		{"magic", func(b []byte) []byte { b[0]++; return b }},
		{"version", func(b []byte) []byte { b[4]++; return b }},
		{"operation", func(b []byte) []byte { b[5] = 99; return b }},
		{"operation 0", func(b []byte) []byte { b[5] = 0; return b }},
		{"kind", func(b []byte) []byte { b[6] = 1; return b }},
		{"status in a request", func(b []byte) []byte { b[7] = 1; return b }},
		{"from slot", func(b []byte) []byte { b[9] = 0xff; return b }},
		{"to slot", func(b []byte) []byte { b[11] = 0xff; return b }},
		{"huge length", func(b []byte) []byte { b[15] = 0xff; return b }},
		{"from nobody", func(b []byte) []byte { clear(b[16:24]); return b }},
		{"to nobody", func(b []byte) []byte { clear(b[24:32]); return b }},
		{"id of 9 bytes", func(b []byte) []byte { b[12]++; return append(b, 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := goodFrames()[0]
			if _, err := parseFrame(c.edit(f.appendTo(nil))); !errors.Is(err, ErrBadFrame) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSegmentInfoRefuses(t *testing.T) {
	good := segmentInfo{size: 4096, kept: "log"}.append(nil)
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
	}{
		{"short", func(b []byte) []byte { return b[:8] }},
		{"size 0", func(b []byte) []byte { clear(b[:8]); return b }},
		{"size over the limit", func(b []byte) []byte { b[7] = 1; return b }},
		{"flags", func(b []byte) []byte { b[8] = 2; return b }},
		{"kept and hugetlb", func(b []byte) []byte { b[8] = flagHugeTLB; return b }},
		{"path", func(b []byte) []byte { return append(b, "/../slots"...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseSegmentInfo(c.edit(bytes.Clone(good)))
			if !errors.Is(err, ErrBadFrame) && !errors.Is(err, ErrBadSegment) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzFrame: whatever a peer sends, decoding does not panic, and what is accepted is exactly what
// encoding it again gives.
func FuzzFrame(f *testing.F) {
	for _, g := range goodFrames() {
		if len(g.payload) < 1024 {
			f.Add(g.appendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parseFrame(b)
		if err != nil {
			return
		}
		if again := g.appendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %x", b, again)
		}
		if info, err := parseSegmentInfo(g.payload); err == nil {
			if again := info.append(nil); !bytes.Equal(again, g.payload) {
				t.Fatalf("segment %x decodes to %x", g.payload, again)
			}
		}
	})
}

// FuzzProcID: a name is a process id only if writing it again gives the same name.
func FuzzProcID(f *testing.F) {
	f.Add(testFrom.String())
	f.Add("p1.-1")
	f.Fuzz(func(t *testing.T, s string) {
		if p, ok := parseProcID(s); ok && p.String() != s {
			t.Fatalf("%q decodes to %s", s, p)
		}
	})
}

// FuzzSlots: any content of the slots file is survived.
func FuzzSlots(f *testing.F) {
	f.Add(newSlotsHead())
	f.Add(binary.LittleEndian.AppendUint64(bytes.Repeat([]byte{1}, slotsFileBytes-8), 1))
	f.Fuzz(func(t *testing.T, content []byte) {
		fd, err := memfd(0)
		must(t, err)
		table := &slotTable{fd: fd}
		defer table.close()
		if _, err := unix.Write(fd, content); err != nil {
			t.Fatal(err)
		}
		for slot := range 4 {
			incarnation, _ := table.read(slot)
			if table.alive(ProcID{Slot: uint16(slot), Incarnation: incarnation}) {
				t.Fatal("alive without a lock")
			}
		}
		table.reclaim()
	})
}
