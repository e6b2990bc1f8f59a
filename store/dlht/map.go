package dlht

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// MaxBytes is the most that a key and its value have together.
const MaxBytes = 1 << 30

// ErrTooLarge: a key and its value are larger than MaxBytes.
var ErrTooLarge = fmt.Errorf("a key and its value have more than %d bytes together", MaxBytes)

// ErrThreads: as many threads as MapConfig.Threads use the map.
var ErrThreads = errors.New("no further thread may use the map: close one, or make the map with more")

// MapConfig configures a Map.
type MapConfig struct {
	Config
	// Threads is how many threads may use the map at once. 0: 64.
	Threads int
	// MaxBlockBytes bounds the memory of keys of more than 8 bytes and values of more than 7. 0: no bound.
	MaxBlockBytes int64
}

const defaultThreads, maxThreads = 64, 1 << 16

// Map is a hash table with keys and values of any size. Each goroutine uses it by a Thread of its own.
type Map struct {
	core
	blocks  blocks
	epoch   atomic.Uint64 // of now: 1 or more
	threads []thread
}

// NewMap makes an empty map. Duplicates are for tables of words only.
func NewMap(config MapConfig) (*Map, error) {
	switch {
	case config.Duplicates:
		return nil, errors.New("dlht: Duplicates are for tables of words, not for maps: use New")
	case config.Threads < 0 || config.Threads > maxThreads:
		return nil, fmt.Errorf("dlht: %d threads: give 1 to %d, or 0 for %d", config.Threads, maxThreads, defaultThreads)
	case config.MaxBlockBytes < 0:
		return nil, fmt.Errorf("dlht: a bound of %d bytes for blocks: give 0 for none, or more", config.MaxBlockBytes)
	case config.Threads == 0:
		config.Threads = defaultThreads
	}
	m := &Map{threads: make([]thread, config.Threads)}
	m.classes = true
	m.blocks.most = config.MaxBlockBytes
	m.epoch.Store(1)
	return m, m.init(config.Config)
}

// class of a key: how many bytes it has, which are its word, or longKey. It stands in the value beside the key.
//
//	value   tag 4 bits | class 4 | payload 56
//
// The tag is the size of the value in the payload, or inBlock: the payload is then where the block lies that has the
// value, after the key if that is long.
type class uint64

const (
	payloadBits        = 1<<56 - 1
	classBits   uint64 = 15 << 56
	longKey     class  = 9 << 56
	inBlock     uint64 = 15
	wordBytes          = 8
	inlineBytes        = 7 // of a value
)

// spread tells the hashes of equal words of different classes apart.
func (c class) spread() uint64 { return uint64(c) >> 56 * 0x9e3779b97f4a7c15 }

func classOf(value uint64) class { return class(value & classBits) }

// wordOf is the word of a key and its class.
func wordOf(key []byte) (word uint64, c class) {
	if len(key) > wordBytes {
		return xxhash.Sum64(key), longKey
	}
	var b [wordBytes]byte
	copy(b[:], key)
	return binary.LittleEndian.Uint64(b[:]), class(len(key)) << 56
}

// Thread is what one goroutine at a time uses a Map by, until Close.
type Thread struct {
	m       *Map
	*thread // nil after Close: its next owner has a Thread of its own
}

// thread is one of a map's places for Threads.
type thread struct {
	used  atomic.Bool
	epoch atomic.Uint64 // in which the present operation began; 0: none is under way
	limbo []limbo       // blocks that were replaced, oldest first
	free  [sizeClasses][]uint64
	_     [lineBytes]byte
}

// limbo is a block that may still be looked at by operations that began in an epoch up to its own.
type limbo struct{ block, epoch uint64 }

// Thread takes one of the map's threads, for the calling goroutine. Close gives it back.
func (m *Map) Thread() (*Thread, error) {
	for i := range m.threads {
		if t := &m.threads[i]; t.used.CompareAndSwap(false, true) {
			return &Thread{m, t}, nil
		}
	}
	return nil, ErrThreads
}

// Close gives the thread back. Its blocks wait for the next user of it. A second Close does nothing.
func (t *Thread) Close() error {
	if t.thread != nil {
		t.used.Store(false)
		t.thread = nil
	}
	return nil
}

// enter begins an operation: blocks that it may see from now on stay.
func (t *Thread) enter() {
	t.m.step()
	t.epoch.Store(t.m.epoch.Load())
}

func (t *Thread) leave() { t.epoch.Store(0) }

// Get appends the value of a key to a slice.
func (t *Thread) Get(key, to []byte) (value []byte, found bool) {
	t.enter()
	defer t.leave()
	word, c := wordOf(key)
	v, found := t.m.get(t.m.hash(word^c.spread()), word, &matcher{blocks: &t.m.blocks, class: c, key: key})
	if !found {
		return to, false
	}
	return t.m.appendValue(to, v), true
}

// Insert adds a key with a value: false if there is one. The error is a store.ErrFull or ErrTooLarge.
func (t *Thread) Insert(key, value []byte) (inserted bool, err error) {
	return t.change(key, value, false)
}

// Put replaces the value of a key: false if there is none. The error is a store.ErrFull or ErrTooLarge.
func (t *Thread) Put(key, value []byte) (found bool, err error) { return t.change(key, value, true) }

func (t *Thread) change(key, value []byte, put bool) (done bool, err error) {
	word, c := wordOf(key)
	v, err := t.makeValue(key, value, c)
	if err != nil {
		return false, err
	}
	t.enter()
	defer t.leave()
	hash, m := t.m.hash(word^c.spread()), &matcher{blocks: &t.m.blocks, class: c, key: key}
	if !put {
		_, done, err = t.m.insert(hash, word, v, m, true)
	} else if old, found, failed := t.m.put(hash, word, v, m); found {
		t.retire(old)
		done = true
	} else {
		err = failed
	}
	if !done {
		t.retire(v) // it may have stood in a claimed slot, where a late reader of the slot has seen it
	}
	return done, err
}

// Delete removes a key.
func (t *Thread) Delete(key []byte) (found bool) {
	t.enter()
	defer t.leave()
	word, c := wordOf(key)
	old, found := t.m.remove(t.m.hash(word^c.spread()), word, &matcher{blocks: &t.m.blocks, class: c, key: key})
	if found {
		t.retire(old)
	}
	return found
}

// All gives every record, as Table.All does. Key and value are valid until the next. While the loop runs, no block
// is used again, and the Thread is used for nothing else.
func (t *Thread) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		t.enter()
		defer t.leave()
		var key, value []byte
		t.m.all(func(word, v uint64) bool {
			key, value = t.m.appendKey(key[:0], word, v), t.m.appendValue(value[:0], v)
			return yield(key, value)
		})
	}
}

// BlockBytes is the memory that blocks have.
func (m *Map) BlockBytes() int64 { return m.blocks.bytes.Load() }

func (m *Map) appendValue(to []byte, v uint64) []byte {
	if size := v >> 60; size != inBlock {
		return appendWord(to, v, size)
	}
	m.step()
	_, value := m.blocks.content(v & payloadBits)
	return append(to, value...)
}

func (m *Map) appendKey(to []byte, word, v uint64) []byte {
	if c := classOf(v); c != longKey {
		return appendWord(to, word, uint64(c)>>56)
	}
	key, _ := m.blocks.content(v & payloadBits)
	return append(to, key...)
}

func appendWord(to []byte, word, size uint64) []byte {
	var b [wordBytes]byte
	binary.LittleEndian.PutUint64(b[:], word)
	return append(to, b[:size]...)
}
