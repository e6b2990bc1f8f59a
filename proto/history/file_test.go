package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// saved gives a file of two nodes, with every kind of operation and of outcome.
func saved(t testing.TB) (path string, content []byte) {
	t.Helper()
	var segments []*Segment
	for w := range WorkerID(2) {
		r := NewRecorder(Options{Worker: w, Node: NodeID(w), Clock: testClock})
		for o := Committed; o <= Unknown; o++ {
			x := r.Begin(int64(o) * 100)
			x.Read(1, 2, 3, 4)
			x.ReadAbsent(1, 3, 0)
			x.Write(1, 2, 4, 5)
			x.Delete(1, 3, 9)
			x.Scan(1, 5, 8)
			x.Piece(0, 2)
			x.Add(1, 4, 6, -7, 8)
			r.End(x, int64(o)*100+50, o)
		}
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}
	initial, final := NewSnapshot(0, Initial), NewSnapshot(1, Final)
	for k := range Key(9) {
		initial.Put(Content{Table: 1, Key: k, State: Present, Version: 1, Digest: Digest(k / 3)})
		final.Put(Content{Table: Table(k % 2), Key: 7 * k, State: State(1 + k%3), Version: 4})
	}
	h, err := NewRun(Run{Names: Names{Tables: []string{"savings"}}, Versions: Counting,
		Initial: []*Snapshot{initial}, Final: []*Snapshot{final}}, segments...)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "history")
	if err := h.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// readAll opens a file and reads every transaction.
func readAll(path string) error {
	h, err := Open(path)
	if err != nil {
		return err
	}
	nothing := func(Content) error { return nil }
	return errors.Join(h.Each(func(*Record) error { return nil }), h.EachContent(Initial, nothing),
		h.EachContent(Final, nothing), h.Close())
}

// refused expects a FormatError with an offset inside the file, or just behind it.
func refused(t *testing.T, path string, content []byte, what string) *FormatError {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	err := readAll(path)
	var f *FormatError
	if !errors.As(err, &f) || f.Offset < 0 || f.Offset > int64(len(content)) || f.Path != path {
		t.Fatalf("%s: %v", what, err)
	}
	return f
}

func TestFileCutAnywhereIsRefused(t *testing.T) {
	path, content := saved(t)
	if err := readAll(path); err != nil {
		t.Fatal(err)
	}
	for n := range content {
		f := refused(t, path, content[:n], "cut short")
		if n >= len(fileMagic) && f.What != whatCut {
			t.Errorf("cut at %d: %v", n, f)
		}
	}
}

func TestEveryChangedByteIsRefused(t *testing.T) {
	path, content := saved(t)
	for i := range content {
		for _, flip := range []byte{1, 0x80, 0xff} {
			changed := bytes.Clone(content)
			changed[i] ^= flip
			if f := refused(t, path, changed, "changed"); f.Offset > int64(i) {
				t.Errorf("byte %d is changed, the error is at %d: %v", i, f.Offset, f)
			}
		}
	}
	refused(t, path, append(bytes.Clone(content), 0), "longer")
}

func TestErrorSaysWhatToDo(t *testing.T) {
	path, content := saved(t)
	later := bytes.Clone(content)
	later[8] = 5
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"another file", []byte("#!/bin/sh\n"), "at offset 0: not a history"},
		{"an empty file", nil, "at offset 0: not a history"},
		{"a later version", later, "at offset 8: format version 5, this program reads 1 to 4; use"},
		{"cut short", content[:len(content)-40], "cut short; copy the file again, or record again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := refused(t, path, c.content, c.name)
			if !strings.Contains(f.Error(), c.want) {
				t.Errorf("%v", f)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestWhatIsNoFileIsWrittenTo and not replaced: /dev/full would become a file for everybody.
func TestWhatIsNoFileIsWrittenTo(t *testing.T) {
	path, content := saved(t)
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(pipe)
		read <- b
	}()
	if err := h.WriteFile(pipe); err != nil {
		t.Fatal(err)
	}
	if i, err := os.Lstat(pipe); err != nil || i.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("the pipe is now %v, %v", i, err)
	}
	if got := <-read; !bytes.Equal(got, content) {
		t.Errorf("%d bytes came through the pipe, want %d", len(got), len(content))
	}
	if err := h.WriteFile(filepath.Dir(pipe)); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a folder: %v", err)
	}
}

// Blocks left out or doubled have good checksums; the end record knows.
func TestBlocksLeftOutOrDoubledAreRefused(t *testing.T) {
	path, content := saved(t)
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	start := h.sources[0].start
	b, ok := parseBlock(content[start:])
	if err := h.Close(); err != nil || !ok {
		t.Fatal(err, ok)
	}
	next := start + blockHeaderBytes + int64(b.bytes)
	without := append(bytes.Clone(content[:start]), content[next:]...)
	doubled := append(bytes.Clone(content[:next]), content[start:]...)
	for _, c := range [][]byte{without, doubled} {
		if f := refused(t, path, c, "blocks"); f.What != whatCounts {
			t.Errorf("%v", f)
		}
	}
}

// FuzzOpen: no file makes it panic, and what it accepts is written again as the same history.
func FuzzOpen(f *testing.F) {
	_, content := saved(f)
	f.Add(content)
	f.Add(content[:100])
	path := filepath.Join(f.TempDir(), "fuzzed")
	again := path + ".again"
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if readAll(path) != nil {
			return
		}
		h, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.WriteFile(again); err != nil {
			t.Fatal(err)
		}
		copied, err := Open(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(records(t, h), records(t, copied)); d != "" {
			t.Error(d)
		}
		if err := errors.Join(h.Close(), copied.Close()); err != nil {
			t.Error(err)
		}
	})
}

// FuzzPayload gets past the checksums: no payload makes the decoder panic or hand out a
// transaction that could not have been recorded, and what it accepts encodes to the same.
func FuzzPayload(f *testing.F) {
	path, content := saved(f)
	h, err := Open(path)
	if err != nil {
		f.Fatal(err)
	}
	at := h.sources[0].start
	b, _ := parseBlock(content[at:])
	for b.magic != blockMagic { // the tables come first
		at += blockHeaderBytes + int64(b.bytes)
		b, _ = parseBlock(content[at:])
	}
	f.Add(uint8(b.items), uint8(b.ops), content[at+blockHeaderBytes:][:b.bytes])
	if err := h.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, txns, ops uint8, payload []byte) {
		head := blockHeader{items: uint32(txns), ops: uint32(ops), bytes: uint32(len(payload)),
			crc: crc32.Checksum(payload, castagnoli)}
		var r Record
		var encoded []byte
		var d delta
		var got []Record
		err := eachTxn(head, payload, &r, func(r *Record) error {
			if r.EndNs < r.StartNs || len(r.Ops) > int(ops)+len(payload)/minOpBytes {
				t.Errorf("%+v", r)
			}
			c := *r
			c.Ops = append([]Op(nil), r.Ops...)
			got = append(got, c)
			encoded = appendTxn(encoded, &d, r)
			return nil
		})
		if err != nil {
			return
		}
		head.crc = crc32.Checksum(encoded, castagnoli)
		i := 0
		if err := eachTxn(head, encoded, &r, func(r *Record) error {
			c := *r
			c.Ops = append([]Op(nil), r.Ops...)
			if d := diff(got[i], c); d != "" {
				t.Error(d)
			}
			i++
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// asFormat1 makes a file of format 1 of the same transactions, as it was before the content of
// tables, the succession of versions and the resolution of clocks were recorded.
func asFormat1(t testing.TB, path string) []byte {
	t.Helper()
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	head := `{"nodes":[{"node":0,"clock":"test","error_ns":7},{"node":1,"clock":"test","error_ns":7}]` +
		`,"tables":["savings"]}`
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint32([]byte(fileMagic), 1), uint32(len(head)))
	b = append(b, head...)
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	var c counts
	if err := h.each(func(x blockHeader) bool { return x.magic == blockMagic },
		func(x blockHeader, payload []byte) error {
			block := append(make([]byte, blockHeaderBytes), payload...)
			seal(block, x)
			b = append(b, block...)
			c.add(counts{1, uint64(x.items), uint64(x.ops)})
			return nil
		}); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return appendEnd(b, c)
}

// A file of format 2 is one of format 3 without what that added.
func TestFileOfFormat2IsRead(t *testing.T) {
	path, content := saved(t)
	content[8] = 2
	end := preambleBytes + int(binary.LittleEndian.Uint32(content[12:]))
	binary.LittleEndian.PutUint32(content[end:], crc32.Checksum(content[:end], castagnoli))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if h.Format() != 2 || h.Txns() != 8 {
		t.Errorf("%+v", h)
	}
	if err := errors.Join(readAll(path), h.Close()); err != nil {
		t.Error(err)
	}
}

// A file that was saved before formats had the content of tables is read as what it is.
func TestFileOfFormat1IsRead(t *testing.T) {
	path, _ := saved(t)
	if err := os.WriteFile(path, asFormat1(t, path), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	initial, _ := h.Knows(Initial)
	final, _ := h.Knows(Final)
	if h.Format() != 1 || initial || final || h.Versions() != Growing || h.Txns() != 8 ||
		h.Nodes()[0].ResolutionNs != 14 {
		t.Errorf("%+v", h)
	}
	if err := errors.Join(readAll(path), h.Close()); err != nil {
		t.Error(err)
	}
}
