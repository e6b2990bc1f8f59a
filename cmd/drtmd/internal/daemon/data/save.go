package data

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"drtmd/internal/durable"
	"drtmd/verbs"
)

// savedDir in the state folder has the copies, one file for each region of memory, under its name.
const savedDir = "saved"

// Saved is a copy of kept memory.
type Saved struct {
	At      time.Time `json:"at"`
	Regions []Region  `json:"regions"`
}

// Region of memory.
type Region struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Sum   uint32 `json:"crc32c"`
}

// Bytes of all regions.
func (s *Saved) Bytes() (n int64) {
	for _, r := range s.Regions {
		n += r.Bytes
	}
	return n
}

// ErrDamaged: a copy is not what was saved.
var ErrDamaged = errors.New("the saved copy is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save copies the memory of what the node keeps into the state folder; nil: runs have used nothing that is kept. Nobody
// has the memory open.
func (s *Store) Save(p verbs.KeptCopier, now time.Time) (*Saved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil || !s.held.Used() || s.held.Saved != nil {
		return nil, nil
	}
	names, err := regions(p, s.held.Memory)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	dir := s.savedDir()
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, err
	}
	saved := &Saved{At: now}
	for _, name := range names {
		r := Region{Name: name}
		sum := crc32.New(castagnoli)
		err := durable.Write(filepath.Join(dir, name), 0o600, func(w io.Writer) error {
			c := &counting{Writer: io.MultiWriter(w, sum)}
			err := p.CopyKept(name, c)
			r.Bytes = c.bytes
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("save %s: %w", name, err)
		}
		r.Sum = sum.Sum32()
		saved.Regions = append(saved.Regions, r)
	}
	if err := durable.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	h := *s.held
	h.Saved = saved
	return saved, s.writeLocked(h)
}

// Restore puts memory back that is gone and was saved; nil: nothing had to be. Memory that is there stays as it is:
// nobody has changed it since. Tables that no run has used are not saved: if they are gone, they count as not loaded,
// and are loaded again.
func (s *Store) Restore(p verbs.KeptCopier) (*Saved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil || s.held.Saved == nil && (s.held.Used() || !s.held.Loaded) {
		return nil, nil
	}
	there, err := regions(p, s.held.Memory)
	if err != nil {
		return nil, err
	}
	if !s.held.Used() {
		if slices.Contains(there, s.held.Memory) {
			return nil, nil
		}
		h := *s.held
		h.Loaded = false
		return nil, s.writeLocked(h)
	}
	restored := &Saved{At: s.held.Saved.At}
	for _, r := range s.held.Saved.Regions {
		if slices.Contains(there, r.Name) {
			continue
		}
		if err := s.restore(p, r); err != nil {
			return nil, fmt.Errorf("restore %s: %w", r.Name, err)
		}
		restored.Regions = append(restored.Regions, r)
	}
	if len(restored.Regions) == 0 {
		return nil, nil
	}
	return restored, nil
}

func (s *Store) restore(p verbs.KeptCopier, r Region) error {
	f, err := os.Open(filepath.Join(s.savedDir(), r.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return err
	}
	if i.Size() != r.Bytes {
		return fmt.Errorf("%w: %s has %d bytes, and had %d", ErrDamaged, f.Name(), i.Size(), r.Bytes)
	}
	return p.PutKept(r.Name, r.Bytes, &checked{r: f, left: r.Bytes, want: r.Sum})
}

// Forget deletes the copy, if the memory was opened since.
func (s *Store) Forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil && s.held.Saved != nil {
		return nil
	}
	return os.RemoveAll(s.savedDir())
}

// ofData is the part of a name of memory behind that of the node: id and partition.
var ofData = regexp.MustCompile(`^-[0-9a-f]{16}-[0-9]+$`)

// Forgotten are the names of memory of tables under a node's name that it has no record of.
func (s *Store) Forgotten(p verbs.KeptMemory, node string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := p.Kept()
	return slices.DeleteFunc(all, func(n string) bool {
		rest, own := strings.CutPrefix(n, node)
		return !own || !ofData.MatchString(rest) || s.held != nil && s.held.Memory == n
	}), err
}

func (s *Store) savedDir() string { return filepath.Join(filepath.Dir(s.file), savedDir) }

// regions are the names of what is kept under a name.
func regions(p verbs.KeptMemory, name string) ([]string, error) {
	all, err := p.Kept()
	return slices.DeleteFunc(all, func(n string) bool { return n != name && !strings.HasPrefix(n, name+".") }), err
}

// counting counts what is written.
type counting struct {
	io.Writer
	bytes int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.bytes += int64(n)
	return n, err
}

// checked fails at the end if the sum is another one.
type checked struct {
	r    io.Reader
	left int64
	sum  uint32
	want uint32
}

func (c *checked) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.sum = crc32.Update(c.sum, castagnoli, b[:n])
	c.left -= int64(n)
	if c.left <= 0 && c.sum != c.want {
		return 0, ErrDamaged // with the last bytes: nobody takes them for whole
	}
	return n, err
}
