package directory

import (
	"errors"
	"fmt"
	"math/bits"

	"drtmd/htm/bloom"
)

// ErrConfig refuses a directory that cannot be built.
var ErrConfig = errors.New("impossible directory")

// TX is the number of a local transaction: that of its pair of filters, and its WrTX_ID. From 0.
type TX int32

// Cache is the geometry of a cache and the round trip to it.
type Cache struct {
	Sets   int // a power of two
	Ways   int
	Cycles int
}

// Bytes that the cache holds.
func (c Cache) Bytes() int { return c.Sets * c.Ways * lineBytes }

const lineBytes = 64

// Config of a Directory.
type Config struct {
	Cores   int
	PerCore int   // transactions that a core multiplexes: HADES' m
	L1, L2  Cache // of each core
	LLC     Cache // the slice of each core: all cores share all slices
	// TagBits is the width of WrTX_ID, without its valid bit; 0: as many as the transactions need.
	TagBits     int
	Read, Write bloom.Geometry // of the pairs of filters; Write.Sets is set by New
	Buffers     int            // Locking Buffers; 0: one for each pair of filters
	Memory      int            // cycles to memory and back
	Find        FindCost
	Hooks       Hooks
	Mutation    Mutation // leaves a step out; 0: none. For tests of checks
}

// FindCost is how long Find takes, in cycles.
type FindCost struct{ Least, PerLine, Most int }

func (f FindCost) of(lines int) int { return min(f.Least+f.PerLine*lines, f.Most) }

// Hooks are called when something happens that is not the result of the call; each may be nil. They may not
// call the Directory.
type Hooks struct {
	// Squashed: a transaction of which the directory has just dropped everything. It is called for the
	// transaction that makes the access, too.
	Squashed func(tx TX, why Reason)
	// Unlocked: a Locking Buffer was given back, so accesses that were denied may be tried again.
	Unlocked func()
}

// Hades is the configuration of HADES Table III for so many cores: 64 KB, 512 KB and 4 MB for each core,
// memory of 100 ns at 2 GHz.
func Hades(cores, perCore int) Config {
	return Config{Cores: cores, PerCore: perCore,
		L1: Cache{Sets: 128, Ways: 8, Cycles: 2}, L2: Cache{Sets: 1024, Ways: 8, Cycles: 12},
		LLC:  Cache{Sets: 4096, Ways: 16, Cycles: 40},
		Read: bloom.Plain(), Write: bloom.CoreWrite(0), Memory: 200,
		Find: FindCost{Least: 80, PerLine: 8, Most: 120}}
}

// Transactions that can be under way at once.
func (c *Config) Transactions() int { return c.Cores * c.PerCore }

// Tag is the width of WrTX_ID that so many transactions need, without the valid bit: HADES §VI.
func Tag(transactions int) int { return bits.Len(uint(transactions - 1)) }

const (
	maxCores        = 1 << 10
	maxTransactions = 1 << 15
	maxLines        = 1<<32 - 1 // of a node: 256 GB
)

// Check says what is wrong.
func (c Config) Check() error { return c.check() }

// check says what is wrong, and fills in what is left to it.
func (c *Config) check() error {
	switch n := c.Transactions(); {
	case c.Cores < 1 || c.Cores > maxCores || c.PerCore < 1 || n > maxTransactions:
		return fmt.Errorf("%w: %d cores with %d transactions each; cores are 1 to %d, transactions 1 to %d in all",
			ErrConfig, c.Cores, c.PerCore, maxCores, maxTransactions)
	case c.TagBits == 0:
		c.TagBits = Tag(n)
	case c.TagBits < Tag(n):
		return fmt.Errorf("%w: %d transactions and tags of %d bits; %d bits name them all", ErrConfig, n, c.TagBits,
			Tag(n))
	}
	for _, x := range []struct {
		name string
		Cache
	}{{"L1", c.L1}, {"L2", c.L2}, {"LLC", c.LLC}} {
		if x.Sets < 1 || x.Sets&(x.Sets-1) != 0 || x.Ways < 1 || x.Cycles < 0 {
			return fmt.Errorf("%w: %s has %d sets of %d ways and takes %d cycles; sets are a power of two, ways at least 1",
				ErrConfig, x.name, x.Sets, x.Ways, x.Cycles)
		}
	}
	if c.Memory < 0 || c.Find.Least < 0 || c.Find.PerLine < 0 || c.Find.Most < c.Find.Least {
		return fmt.Errorf("%w: memory takes %d cycles, finding lines %+v: no time is negative, and Most is the longest",
			ErrConfig, c.Memory, c.Find)
	}
	if c.Buffers == 0 {
		c.Buffers = c.Transactions()
	}
	c.Write.Sets = c.Cores * c.LLC.Sets
	if c.Write.IndexBits == 0 {
		return fmt.Errorf("%w: the write filter has no bits by cache set, so the lines of a transaction are not found",
			ErrConfig)
	}
	if err := c.Read.Check(); err != nil {
		return fmt.Errorf("%w: read filter: %w", ErrConfig, err)
	}
	if err := c.Write.Check(); err != nil {
		return fmt.Errorf("%w: write filter: %w", ErrConfig, err)
	}
	return nil
}
