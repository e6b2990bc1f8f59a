package tabletest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// Cut is access by the holder of a table's lock whose process ends before a store: it panics.
type Cut struct {
	words.Direct
	Left *int // stores that are made before
}

// wasCut is what Cut panics with.
type wasCut struct{}

// Store implements words.Access.
func (a Cut) Store(off int, v uint64) bool {
	a.next()
	return a.Direct.Store(off, v)
}

// Complete implements words.Access.
func (a Cut) Complete(off int, v uint64) bool {
	a.next()
	return a.Direct.Complete(off, v)
}

func (a Cut) next() {
	if *a.Left == 0 {
		panic(wasCut{})
	}
	*a.Left--
}

// Journaled is a table that notes its changes in memory without line words.
type Journaled interface {
	Table
	Journal(u *words.Undo)
	Unlock()
}

// Cuts are changes of a table that are cut off, made by access of type A. The table begins its memory, which has no line
// words; behind it is the journal that it notes changes in.
type Cuts[T Journaled, A any] struct {
	Bytes   int // of the table
	Format  func(m *htm.Memory) (T, error)
	Access  func(table T, left *int) A // a Cut by the table's own access
	Ensure  func(table T, a A, key, state uint64) (off int, v layout.Version, ok bool, err error)
	Reclaim func(table T, a A, key, state uint64) (ok bool, err error)
	Check   func(table T) error // what is wrong with it

	table   T
	memory  *htm.Memory
	words   []byte // of the table
	journal *words.Undo
	there   map[uint64]bool
	cuts    int
}

func (c *Cuts[T, A]) begin() (err error) {
	c.memory, c.there, c.cuts = Memory(c.at()+words.UndoBytes, false), map[uint64]bool{}, 0
	c.words = c.memory.Bytes[:c.Bytes]
	if c.table, err = c.Format(c.memory); err == nil {
		c.use(words.FormatUndo(c.memory.Bytes, c.at()))
	}
	return err
}

// at is where the journal is.
func (c *Cuts[T, A]) at() int { return (c.Bytes + layout.LineBytes - 1) &^ (layout.LineBytes - 1) }

func (c *Cuts[T, A]) use(u *words.Undo) {
	c.journal = u
	c.table.Journal(u)
}

// attach does what the next life does.
func (c *Cuts[T, A]) attach() (undone bool, err error) {
	u, undone, err := words.OpenUndo(c.memory.Bytes, c.at(), c.Bytes)
	if err == nil {
		c.use(u)
		c.table.Unlock()
	}
	return undone, err
}

// ArePutBack makes and gives back entries of random keys. Each change is first cut off before each of its stores in turn,
// and what the journal puts back must be all that was there. An entry that is made stays, though its notes are there yet:
// others may have used it.
func (c *Cuts[T, A]) ArePutBack(keys uint64, changes int) error {
	if err := c.begin(); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range changes {
		key := r.Uint64N(keys)
		if err := c.change(key); err != nil {
			return fmt.Errorf("change %d, of key %d: %w", i, key, err)
		}
	}
	if c.cuts < 5*changes {
		return fmt.Errorf("%d changes were cut off %d times: each has more stores", changes, c.cuts)
	}
	return c.panics(keys)
}

// change makes or gives back the entry of a key.
func (c *Cuts[T, A]) change(key uint64) error {
	before := bytes.Clone(c.words)
	for stores := 0; ; stores++ {
		was, err := c.cut(key, stores)
		if err != nil {
			return err
		}
		if !was {
			break
		}
		undone, err := c.attach()
		if err != nil {
			return err
		}
		if undone != (stores > 0) || !bytes.Equal(c.words, before) {
			return fmt.Errorf("cut off after %d stores, it is not put back", stores)
		}
		c.cuts++
	}
	if made := bytes.Clone(c.words); !c.there[key] {
		undone, err := c.attach()
		if err != nil {
			return err
		}
		if undone || !bytes.Equal(c.words, made) {
			return errors.New("the entry was made, and is put back")
		}
	}
	c.journal.Drop()
	c.there[key] = !c.there[key]
	return c.Check(c.table)
}

// cut makes a change that is cut off after so many stores, if it has more. Its notes stay.
func (c *Cuts[T, A]) cut(key uint64, stores int) (was bool, err error) {
	defer func() {
		switch x := recover(); x {
		case nil, wasCut{}:
			was = x != nil
		default:
			panic(x)
		}
	}()
	ok, a := false, c.Access(c.table, &stores)
	if c.there[key] {
		ok, err = c.Reclaim(c.table, a, key, 0)
	} else {
		_, _, ok, err = c.Ensure(c.table, a, key, 0)
	}
	if err == nil && !ok {
		err = errors.New("it was refused")
	}
	return false, err
}

// panics has the change that makes an entry end in the middle with a panic, for want of room in the journal. What was
// noted must stay there.
func (c *Cuts[T, A]) panics(key uint64) (err error) {
	before := bytes.Clone(c.words)
	d := words.DirectOf(nil, c.memory)
	d.Undo = c.journal
	for range binary.LittleEndian.Uint64(c.memory.Bytes[c.at()+8:]) - 3 { // its room
		v, _ := d.Load(0)
		d.Store(0, v)
	}
	region := htm.NewRegion(htm.Config{})
	region.Begin()
	func() {
		defer func() {
			if _, full := recover().(invariant.Violation); !full {
				err = errors.New("a journal that is full takes a note")
			}
		}()
		_, _, _, _ = c.table.EnsureIn(region, key, 0)
	}()
	if err != nil {
		return err
	}
	if undone, err := c.attach(); err != nil || !undone || !bytes.Equal(c.words, before) {
		return fmt.Errorf("a change that panicked is not put back (%v)", err)
	}
	return c.Check(c.table)
}
