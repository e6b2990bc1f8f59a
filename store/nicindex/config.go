package nicindex

import (
	"errors"
	"fmt"
	"unsafe"

	"drtmd/store/layout"
)

// Config describes an index.
type Config struct {
	Name       string // of the table, for messages
	Segments   int    // of the host's table
	ValueBytes int    // of each value
	Budget     int    // bytes of NIC memory
	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation
}

// ErrBudget: the NIC memory does not suffice.
var ErrBudget = errors.New("NIC memory budget too small")

// ErrConfig: no segments, or no values.
var ErrConfig = errors.New("NIC index not possible")

const (
	pagePositions = 3
	pageBytes     = 2 * layout.LineBytes
	// leastObjects must fit beside the entries of segments: as many as a transaction may lock.
	leastObjects = 64
	maxPages     = 1<<31/pagePositions - 1
)

const _ = -(unsafe.Sizeof(page{}) ^ pageBytes)

// sizes are what a budget gives.
type sizes struct{ pages, values int }

// valueStride is the memory of a value, with its place in the list.
func (c *Config) valueStride() int { return (c.ValueBytes+7)&^7 + 4 }

// Least is the smallest budget.
func (c *Config) Least() int {
	return (c.Segments+leastObjects)*pageBytes + leastObjects*c.valueStride()
}

// All is a budget with room for a number of objects with their values, beside what Least has.
func (c *Config) All(objects int) int {
	return c.Least() + (objects+pagePositions-1)/pagePositions*(pageBytes+pagePositions*c.valueStride())
}

// Check reports why there can be no such index.
func (c *Config) Check() error {
	switch {
	case c.Segments < 1 || c.Segments > maxPages/2 || c.ValueBytes < 1 || c.ValueBytes > layout.MaxValueBytes:
		return fmt.Errorf("index of table %q: %w: %d segments and values of %d bytes; they are from 1 to %d, and from 1 "+
			"to %d", c.Name, ErrConfig, c.Segments, c.ValueBytes, maxPages/2, layout.MaxValueBytes)
	case c.Budget < c.Least():
		return fmt.Errorf("index of table %q: %w: %d bytes; the entries of %d segments take %d, and %d objects %d more: "+
			"give it %d or more", c.Name, ErrBudget, c.Budget, c.Segments, c.Segments*pageBytes, leastObjects,
			c.Least()-c.Segments*pageBytes, c.Least())
	}
	return nil
}

// sizes divides the budget: entries of segments, and of the rest as many values as there are positions in pages of
// chains, because the segments' own positions may all be of one page's keys.
func (c *Config) sizes() sizes {
	rest := c.Budget - c.Least()
	// Three objects share a page.
	more := rest / (pageBytes + pagePositions*c.valueStride())
	pages := min(c.Segments+leastObjects+more, maxPages)
	return sizes{pages: pages, values: leastObjects + pagePositions*(pages-c.Segments-leastObjects)}
}
