//go:build linux && amd64

package fabric

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestSegmentShapes(t *testing.T) {
	f := openTest(t, testDir(t))
	for _, c := range []struct {
		name string
		o    SegmentOptions
	}{
		{"one byte", SegmentOptions{Size: 1}},
		{"not a page", SegmentOptions{Size: 4097}},
		{"over one allocation chunk", SegmentOptions{Size: allocateChunk + 1}},
		{"huge", SegmentOptions{Size: 3 << 20, Huge: true}},
		{"heap", SegmentOptions{Size: 4097, Heap: true}},
		{"kept", SegmentOptions{Size: 4097, Keep: "shape"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSegment(t, f, c.o)
			b := s.Bytes()
			if len(b) != c.o.Size || cap(b) != c.o.Size || s.Size() != c.o.Size {
				t.Errorf("len %d, cap %d, size %d", len(b), cap(b), s.Size())
			}
			if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%lineBytes != 0 {
				t.Error("not aligned to a line")
			}
			if s.Kept() != c.o.Keep || s.ID() == 0 {
				t.Errorf("kept %q, id %d", s.Kept(), s.ID())
			}
			if !bytes.Equal(b, make([]byte, len(b))) {
				t.Error("not zeroed")
			}
			b[len(b)-1] = 1
			must(t, s.Close())
			must(t, s.Close())
			if s.Bytes() != nil {
				t.Error("bytes after close")
			}
		})
	}
}

func TestAnonymousMemoryIsSealedAndAllocated(t *testing.T) {
	f := openTest(t, testDir(t))
	for _, huge := range []bool{false, true} {
		s := newSegment(t, f, SegmentOptions{Size: 3<<20 + 5, Huge: huge})
		must(t, checkMemfd(s.m.fd, s.Size(), unix.TMPFS_MAGIC))
		if err := unix.Ftruncate(s.m.fd, 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncating gave %v", err)
		}
		if err := unix.Ftruncate(s.m.fd, 4<<20); !errors.Is(err, unix.EPERM) {
			t.Errorf("growing gave %v", err)
		}
	}
}

func TestNewSegmentRefuses(t *testing.T) {
	f := openTest(t, testDir(t))
	newSegment(t, f, SegmentOptions{Size: 100, Keep: "taken"})
	for _, c := range []struct {
		name string
		o    SegmentOptions
		want error
		says string
	}{
		{"size 0", SegmentOptions{}, ErrSize, "1 to "},
		{"negative size", SegmentOptions{Size: -1}, ErrSize, "-1"},
		{"over the limit", SegmentOptions{Size: math.MaxInt}, ErrSize, "1 to "},
		{"more than the host has", SegmentOptions{Size: maxSegmentBytes}, ErrNoMemory, "available"},
		{"more than the file system has", SegmentOptions{Size: maxSegmentBytes, Keep: "big"},
			ErrNoMemory, "df -h"},
		{"kept on the heap", SegmentOptions{Size: 1, Keep: "x", Heap: true}, unix.EINVAL, "heap"},
		{"path as name", SegmentOptions{Size: 1, Keep: "../x"}, ErrBadName, "letters"},
		{"hidden name", SegmentOptions{Size: 1, Keep: ".new-x"}, ErrBadName, "letters"},
		{"long name", SegmentOptions{Size: 1, Keep: strings.Repeat("x", 129)}, ErrBadName, "128"},
		{"open here already", SegmentOptions{Size: 100, Keep: "taken"}, ErrKeptBusy, "another name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := f.NewSegment(c.o)
			wantErr(t, err, c.want, c.says)
		})
	}
	if names, err := f.ListKept(); err != nil || !slices.Equal(names, []string{"taken"}) {
		t.Errorf("kept %v, %v", names, err)
	}
	if left := dirNames(t, f.dir.join(keptName)); !slices.Equal(left, []string{"taken"}) {
		t.Errorf("files left: %v", left)
	}
}

func TestOwnSegmentIsImportedAsTheSameMemory(t *testing.T) {
	f := openTest(t, testDir(t))
	for _, heap := range []bool{false, true} {
		s := newSegment(t, f, SegmentOptions{Size: 128, Heap: heap})
		f.Export(s.ID(), s)
		again, err := f.Import(f.Self(), s.ID())
		must(t, err)
		if unsafe.SliceData(again.Bytes()) != unsafe.SliceData(s.Bytes()) {
			t.Error("another mapping")
		}
		must(t, s.Close())
		f.Unexport(s.ID())
		again.Bytes()[0] = 1 // still mapped
		must(t, again.Close())
		_, err = f.Import(f.Self(), s.ID())
		wantErr(t, err, ErrNoSegment)
		f.Export(s.ID(), s) // closed: exports nothing
		_, err = f.Import(f.Self(), s.ID())
		wantErr(t, err, ErrNoSegment)
	}
}

func TestSegmentIsSharedBetweenProcesses(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "member", dir)
	a, err := f.Import(c.id, 1)
	must(t, err)
	b, err := f.Import(c.id, 1)
	must(t, err)
	if !bytes.HasPrefix(a.Bytes(), []byte("from the child")) || a.Size() != 10_000 {
		t.Errorf("%d bytes: %q", a.Size(), a.Bytes()[:20])
	}
	a.Bytes()[9_999] = 7
	if b.Bytes()[9_999] != 7 {
		t.Error("two imports are two memories")
	}
	_, err = f.Import(c.id, 2)
	wantErr(t, err, ErrNoSegment, "heap memory")
	_, err = f.Import(c.id, 3)
	wantErr(t, err, ErrNoSegment, "withdrawn")
	c.kill()
	if a.Bytes()[9_999] != 7 { // the mapping outlives the maker
		t.Error("memory changed with its maker's death")
	}
	must(t, errors.Join(a.Close(), b.Close()))
}

func TestKeptMemorySurvivesAKill(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "keeper", dir)
	mapped, err := f.Import(c.id, 1)
	must(t, err)
	if mapped.Kept() != "log" {
		t.Errorf("imported kept memory is named %q", mapped.Kept())
	}
	_, err = f.NewSegment(SegmentOptions{Size: 8192, Keep: "log"})
	wantErr(t, err, ErrKeptBusy)
	err = f.RemoveKept("log")
	wantErr(t, err, ErrKeptBusy)
	c.kill()

	// The lock is gone with its owner although a peer still maps the file.
	s := newSegment(t, f, SegmentOptions{Size: 8192, Keep: "log"})
	if !bytes.HasPrefix(s.Bytes()[4096:], []byte("written before the kill")) {
		t.Errorf("content %q", s.Bytes()[4096:4130])
	}
	s.Bytes()[0] = 9
	if mapped.Bytes()[0] != 9 {
		t.Error("the new owner has another file")
	}
	must(t, errors.Join(s.Close(), mapped.Close()))

	_, err = f.NewSegment(SegmentOptions{Size: 4096, Keep: "log"})
	wantErr(t, err, ErrKeptSize, "8192", "4096")
	must(t, f.Close()) // the last one leaves, the kept memory stays
	if got := dirNames(t, dir); !slices.Equal(got, []string{keptName}) {
		t.Errorf("left %v", got)
	}
	g := openTest(t, dir)
	if names, err := g.ListKept(); err != nil || !slices.Equal(names, []string{"log"}) {
		t.Errorf("kept %v, %v", names, err)
	}
	must(t, g.RemoveKept("log"))
	wantErr(t, g.RemoveKept("log"), ErrNotKept)
	wantErr(t, g.RemoveKept("../slots"), ErrBadName)
}

// TestKeptMemoryIsCopiedAndPutBack, as a whole or not at all.
func TestKeptMemoryIsCopiedAndPutBack(t *testing.T) {
	f := openTest(t, testDir(t))
	const size = copyBytes + 77
	s := newSegment(t, f, SegmentOptions{Size: size, Keep: "one"})
	for i := range s.Bytes() {
		s.Bytes()[i] = byte(i * 7)
	}
	want := bytes.Clone(s.Bytes())
	var b bytes.Buffer
	wantErr(t, f.CopyKept("one", &b), ErrKeptBusy, "another name")
	must(t, s.Close())
	must(t, f.CopyKept("one", &b))
	wantErr(t, f.CopyKept("two", &b), ErrNotKept, "")
	wantErr(t, f.PutKept("one", int64(b.Len()), bytes.NewReader(b.Bytes())), unix.EEXIST, "")
	wantErr(t, f.PutKept("two", int64(b.Len()), bytes.NewReader(b.Bytes()[1:])), io.ErrUnexpectedEOF, "the content ends")
	wantErr(t, f.PutKept("two", int64(b.Len()-1), bytes.NewReader(b.Bytes())), ErrKeptSize, "more than")
	if left := dirNames(t, f.dir.join(keptName)); !slices.Equal(left, []string{"one"}) {
		t.Errorf("files left: %v", left)
	}
	must(t, f.PutKept("two", int64(b.Len()), &b))
	again := newSegment(t, f, SegmentOptions{Size: size, Keep: "two"})
	if !bytes.Equal(again.Bytes(), want) {
		t.Error("another content")
	}
}

func TestKeptFileOfOthersIsRefused(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	must(t, os.Mkdir(filepath.Join(dir, keptName), 0o700))
	path := filepath.Join(dir, keptName, "x")
	must(t, os.WriteFile(path, []byte("data"), 0o600))
	must(t, os.Chmod(path, 0o644))
	_, err := f.NewSegment(SegmentOptions{Size: 4, Keep: "x"})
	wantErr(t, err, ErrUnsafeFile, "mode 0644")
	wantErr(t, f.RemoveKept("x"), ErrUnsafeFile)
}

func TestHalfMadeKeptFilesAreReclaimed(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	must(t, os.Mkdir(filepath.Join(dir, keptName), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, keptName, ".new-dead-1"), nil, 0o600))
	fd, err := f.dir.createKeptTemp(keptName + "/.new-busy-1")
	must(t, err)
	defer closeFD(fd)
	openTest(t, dir)
	if got := dirNames(t, filepath.Join(dir, keptName)); !slices.Equal(got, []string{".new-busy-1"}) {
		t.Errorf("left %v", got)
	}
}

func TestThousandImportsLeakNothing(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	c := startChild(t, "member", dir)
	round := func() {
		s, err := f.Import(c.id, 1)
		must(t, err)
		e, err := f.ImportFD(c.id, 1)
		must(t, err)
		own, err := f.NewSegment(SegmentOptions{Size: 4096})
		must(t, err)
		f.Export(9, own)
		must(t, errors.Join(s.Close(), e.Close(), own.Close()))
	}
	round()
	fds, maps := openFDs(), countMaps(t)
	for range 1000 {
		round()
	}
	if n := openFDs(); n != fds {
		t.Errorf("%d descriptors before, %d after", fds, n)
	}
	if n := countMaps(t); n != maps {
		t.Errorf("%d mappings before, %d after", maps, n)
	}
}

func countMaps(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	return bytes.Count(b, []byte("memfd:drtmd"))
}

// Killed at any point of joining, making kept memory and leaving, a process wedges nobody and the
// next one finds nothing but whole kept files.
func TestKillsAtAnyPointLeaveNoRemains(t *testing.T) {
	dir := testDir(t)
	f := openTest(t, dir)
	const kills = 25
	for i := range kills {
		c := startChild(t, "churner", dir)
		time.Sleep(time.Duration(i) * 400 * time.Microsecond) // the point of the kill, no ordering
		c.kill()
	}
	g := openTest(t, dir)
	if got := len(g.Peers()); got != 2 {
		t.Errorf("%d peers alive", got)
	}
	want := []string{keptName, lockName, f.Self().String(), g.Self().String(), slotsName}
	got := dirNames(t, dir)
	got = slices.DeleteFunc(got, func(s string) bool { return slices.Contains(want, s) })
	if len(got) != 0 {
		t.Errorf("remains: %v", got)
	}
	names, err := g.ListKept()
	must(t, err)
	if files := dirNames(t, filepath.Join(dir, keptName)); len(files) != len(names) {
		t.Errorf("kept %v, files %v", names, files)
	}
	for _, name := range names {
		newSegment(t, g, SegmentOptions{Size: 1 << 20, Keep: name}) // whole, and not locked
	}
}

// With pages in the pool (sysctl vm.nr_hugepages=4) hugetlb memory is made and passed.
func TestHugeTLB(t *testing.T) {
	if freeHugePages() < 4 {
		t.Skipf("%d free huge pages, 4 needed: sysctl vm.nr_hugepages=4", freeHugePages())
	}
	dir := testDir(t)
	f, err := Open(Options{Dir: dir, HugeTLB: true})
	must(t, err)
	defer func() { must(t, f.Close()) }()
	s := newSegment(t, f, SegmentOptions{Size: hugePageBytes + 1, Huge: true})
	if !s.m.hugeTLB || s.Size() != hugePageBytes+1 {
		t.Fatalf("hugetlb %v, size %d", s.m.hugeTLB, s.Size())
	}
	s.Bytes()[hugePageBytes] = 7
	f.Export(1, s)
	g, err := Open(Options{Dir: dir, HugeTLB: true})
	must(t, err)
	defer func() { must(t, g.Close()) }()
	again, err := g.Import(f.Self(), 1)
	must(t, err)
	if again.Size() != s.Size() || again.Bytes()[hugePageBytes] != 7 {
		t.Error("another memory")
	}
	must(t, again.Close())
	_, err = openTest(t, dir).Import(f.Self(), 1) // did not opt in
	wantErr(t, err, ErrBadSegment, "hugetlb")
	big := newSegment(t, f, SegmentOptions{Size: (freeHugePages() + 1) * hugePageBytes, Huge: true})
	if big.m.hugeTLB {
		t.Error("hugetlb memory over what the pool has")
	}
}
