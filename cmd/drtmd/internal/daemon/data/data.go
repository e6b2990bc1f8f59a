// Package data is the record that a node has, in its state folder, of the tables that it keeps over its lives: which
// tables of which cluster these are, and whether transactions have changed them. The tables and their logs are in kept
// memory (verbs.MROptions.Keep), whose name has the id of the data in it. So another state folder finds no memory of
// its own, and overwrites none.
//
// A node that stops copies that memory into its state folder (Save), with checksums. The copy counts until the memory
// is opened again: it is put back (Restore) if the memory is gone, because the host has been started again.
//
// Data that no run has used yet is as loaded, and may be replaced. Data that was used is never replaced: who wants
// that, removes data.json from the state folders of all nodes.
//
// A Store may be used by any goroutine.
package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"drtmd/internal/durable"
)

// File in the state folder.
const File = "data.json"

// format of the file.
const format = 1

// Held is what a node keeps.
type Held struct {
	Format int `json:"format"`
	// ID is random: all partitions of the same data have the same.
	ID         string `json:"id"`
	Partition  int    `json:"partition"`
	Partitions int    `json:"partitions"`
	Memory     string `json:"memory"` // its name
	// Where the memory is: provider and folder. A record of an older drtmd does not say.
	Where string `json:"where,omitempty"`
	// Tables are those of load.Plan.Tables, Workload and Protocol for people.
	Tables   string `json:"tables"`
	Workload string `json:"workload"`
	Protocol string `json:"protocol"`
	// Loaded: every member has loaded its partition. Runs that have used it since; with 0 it is as it was loaded.
	Loaded bool `json:"loaded"`
	Runs   int  `json:"runs"`
	// Saved is the copy of the memory in the state folder, if it was not opened since; nil: there is none.
	Saved *Saved `json:"saved,omitempty"`
	// ClockNs is a reading of the planes' clock, which must not begin before it.
	ClockNs int64 `json:"clock_ns"`
}

// Used reports whether transactions may have changed the tables.
func (h *Held) Used() bool { return h.Runs > 0 }

// Errors of a Store; test with errors.Is.
var (
	// ErrUsed: the node keeps other data, which was used.
	ErrUsed = errors.New("this node keeps other data")
	// ErrOther: the data asked for is not what the node keeps.
	ErrOther = errors.New("this node does not keep that data")
	// ErrPlace: the memory is elsewhere.
	ErrPlace = errors.New("the tables that this node keeps are in another place")
	// ErrClock: the clock would begin before leases and locks in kept memory.
	ErrClock = errors.New("the wall clock was set back")
)

// Store is the record.
type Store struct {
	mu   sync.Mutex // guards what follows
	file string
	held *Held // nil: nothing is kept
}

// Load reads the record of a state folder.
func (s *Store) Load(stateDir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, s.held = filepath.Join(stateDir, File), nil
	b, err := os.ReadFile(s.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	h := &Held{}
	if err == nil {
		err = json.Unmarshal(b, h)
	}
	switch {
	case err != nil:
		return fmt.Errorf("cannot read %s, the record of the tables that this node keeps: %w; restore it, or remove it to "+
			"give the tables up", s.file, err)
	case h.Format != format:
		return fmt.Errorf("%s: the tables that this node keeps are of format %d, and this drtmd reads format %d: use the "+
			"drtmd that wrote them, or remove the file to give them up", s.file, h.Format, format)
	}
	s.held = h
	return nil
}

// Held is what the node keeps; nil: nothing.
func (s *Store) Held() *Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		return nil
	}
	h := *s.held
	return &h
}

// CheckPlace refuses another place than that of tables which runs have used. Memory of their name there would be of an
// earlier time, and another provider has another layout.
func (s *Store) CheckPlace(where string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held; h != nil && h.Used() && h.Where != "" && h.Where != where {
		return fmt.Errorf("%w: in %s, and the settings say %s; set transport.provider, transport.run_dir and "+
			"transport.keep_dir as they were, or, to give the tables up, remove %s from the state folders of all nodes",
			ErrPlace, h.Where, where, File)
	}
	return nil
}

// Replace puts new data in the place of what the node keeps, and gives that: nil if it kept nothing. ErrUsed: it was
// used.
func (s *Store) Replace(h Held) (before *Held, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil && s.held.Used() {
		return nil, fmt.Errorf("%w: %s", ErrUsed, s.held)
	}
	before = s.held
	h.Format, h.Loaded, h.Runs, h.Saved = format, false, 0, nil
	return before, s.writeLocked(h)
}

// Attach gives the data of an id to go on with, at a reading of the planes' clock.
func (s *Store) Attach(id string, partition int, clock time.Duration) (*Held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h := s.held; {
	case h == nil:
		return nil, fmt.Errorf("%w: data %s; it keeps none", ErrOther, id)
	case h.ID != id || h.Partition != partition:
		return nil, fmt.Errorf("%w: partition %d of data %s; it keeps %s", ErrOther, partition, id, h)
	case h.Used() && int64(clock) < h.ClockNs: // else there are no locks and leases
		return nil, fmt.Errorf("%w: by at least %v since the tables were last opened; locks and leases in kept memory are "+
			"of a later time: set the clock right", ErrClock, time.Duration(h.ClockNs)-clock)
	}
	h := *s.held
	h.ClockNs, h.Saved = int64(clock), nil // the memory is newer from now on
	if err := s.writeLocked(h); err != nil {
		return nil, err
	}
	return &h, nil
}

// Loaded notes that every member has loaded its partition.
func (s *Store) Loaded(id string) error { return s.change(id, func(h *Held) { h.Loaded = true }) }

// Use notes that a run is about to use the data.
func (s *Store) Use(id string) error {
	return s.change(id, func(h *Held) { h.Loaded, h.Runs = true, h.Runs+1 })
}

func (s *Store) change(id string, f func(*Held)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil || s.held.ID != id {
		return fmt.Errorf("%w: data %s", ErrOther, id)
	}
	h := *s.held
	f(&h)
	if h == *s.held {
		return nil
	}
	return s.writeLocked(h)
}

func (s *Store) writeLocked(h Held) error {
	b, err := json.MarshalIndent(&h, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(s.file, append(b, '\n'), 0o600); err != nil {
		return err
	}
	s.held = &h
	return nil
}

// String names it for people.
func (h *Held) String() string {
	return fmt.Sprintf("partition %d of %d of data %s (%s, %s)", h.Partition, h.Partitions, h.ID, h.Workload, h.Protocol)
}
