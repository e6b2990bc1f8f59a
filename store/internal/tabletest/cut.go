package tabletest

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"drtmd/htm"
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
	if *a.Left == 0 {
		panic(wasCut{})
	}
	*a.Left--
	return a.Direct.Store(off, v)
}

// Cuts are changes of a table that are cut off. The table begins its memory, which has no line words; behind it is the
// journal that it notes changes in.
type Cuts struct {
	Memory     *htm.Memory
	TableBytes int                 // in front of the journal
	Direct     func() words.Direct // the table's access
	Ensure     func(a Cut, key uint64) bool
	Reclaim    func(a Cut, key uint64) bool
	Check      func() error // what is wrong with the table
}

// JournalAt is where the journal of a table of so many bytes is.
func JournalAt(n int) int { return (n + 63) &^ 63 }

// ArePutBack makes and gives back entries of random keys. Each change is first cut off before each of its stores in turn,
// and what the journal puts back must be all that was there.
func (c *Cuts) ArePutBack(keys uint64, changes int) error {
	r := rand.New(rand.NewPCG(1, 2))
	there := map[uint64]bool{}
	table := c.Memory.Bytes[:c.TableBytes]
	cut := 0
	for i := range changes {
		key := r.Uint64N(keys)
		change := c.Ensure
		if there[key] {
			change = c.Reclaim
		}
		before := bytes.Clone(table)
		for stores := 0; ; stores++ {
			was, ok := c.cut(change, key, stores)
			if !was && !ok {
				return fmt.Errorf("change %d: key %d was refused", i, key)
			}
			if !was {
				break
			}
			_, undone, err := words.OpenUndo(c.Memory.Bytes, JournalAt(c.TableBytes), c.TableBytes)
			if err != nil {
				return err
			}
			if undone != (stores > 0) || !bytes.Equal(table, before) {
				return fmt.Errorf("change %d, of key %d: cut off after %d stores, it is not put back", i, key, stores)
			}
			cut++
		}
		there[key] = !there[key]
		if err := c.Check(); err != nil {
			return err
		}
	}
	if cut < 5*changes {
		return fmt.Errorf("%d changes were cut off %d times: each has more stores", changes, cut)
	}
	return nil
}

// cut makes a change that is cut off after so many stores, if it has more; else it is made.
func (c *Cuts) cut(change func(Cut, uint64) bool, key uint64, stores int) (was, ok bool) {
	defer func() {
		switch x := recover(); x {
		case nil, wasCut{}:
			was = x != nil
		default:
			panic(x)
		}
	}()
	a := Cut{c.Direct(), &stores}
	ok = change(a, key)
	if a.Undo != nil {
		a.Undo.Drop()
	}
	return false, ok
}
