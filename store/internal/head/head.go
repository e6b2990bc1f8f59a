// Package head has what all kinds of tables say of themselves in the words at their beginning, which Attach
// compares with the table's Config.
package head

import (
	"fmt"

	"drtmd/store/layout"
)

// Fits reports why a table of n bytes cannot stand at an offset of a region of so many bytes; nil: it can.
func Fits(name string, at, n, region int) error {
	switch {
	case at < 0 || at%layout.BucketBytes != 0:
		return fmt.Errorf("table %q: offset %d is not a multiple of %d", name, at, layout.BucketBytes)
	case region < n || at > region-n:
		return fmt.Errorf("table %q: %d bytes at offset %d do not fit in a region of %d", name, n, at, region)
	case uint64(at+n) > layout.MaxOffset:
		return fmt.Errorf("table %q: ends at offset %d, over the %d that a slot can hold", name, at+n,
			uint64(layout.MaxOffset))
	}
	return nil
}

// Kinds is the word of a table's layout and index, and of their versions.
func Kinds(l layout.Kind, i layout.Index) uint64 {
	return uint64(l) | uint64(l.Version())<<8 | uint64(i)<<16 | uint64(i.Version())<<24
}

// Check compares the words of a head with those in memory, which word reads. The first that differs is said by its
// name, and wraps notTable.
func Check(table string, word func(i int) uint64, want []uint64, names []string, notTable error) error {
	for i, w := range want {
		if got := word(i); got != w {
			return fmt.Errorf("table %q: %w: %s is %#x, not %#x", table, notTable, names[i], got, w)
		}
	}
	return nil
}

// Store writes the words of a head, the first, the magic, last: until then it is no table.
func Store(set func(i int, w uint64), words []uint64) {
	for i := len(words) - 1; i >= 0; i-- {
		set(i, words[i])
	}
}
