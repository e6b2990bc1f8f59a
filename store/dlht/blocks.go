package dlht

import (
	"bytes"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"drtmd/store"
)

// ErrBlocks: the blocks of a map are at MapConfig.MaxBlockBytes. It is a store.ErrFull.
var ErrBlocks error = fmt.Errorf("%w: no memory for a key or value within MaxBlockBytes", store.ErrFull)

// Blocks have sizes of four steps per power of two, from 16 bytes on, cut from chunks. A block begins with a word:
//
//	bytes of the key 32 | bytes of the value 32
//
// A block's name is the number of its chunk and the word there that it begins at. Chunks stay for ever.
const (
	chunkBits   = 17 // words
	chunkWords  = 1 << chunkBits
	sizeClasses = 4 * 30
	maxChunks   = 1 << 20
	tableBits   = 10
	collectAt   = 64 // replaced blocks; fewer are not worth a look at all threads
)

// blocks is the memory of all blocks of a map.
type blocks struct {
	most  int64
	bytes atomic.Int64

	mu    sync.Mutex // guards the cutting of chunks, which is rare: threads take many blocks at once
	count int        // chunks
	left  []uint64   // what is left of the last chunk for small blocks
	at    uint64     // its name
	// tables lead from numbers of chunks to chunks.
	tables [maxChunks >> tableBits]atomic.Pointer[[1 << tableBits]atomic.Pointer[[]uint64]]
}

// sizeClass is the class of the smallest block with so many words; its blocks have words words.
func sizeClass(n int) (class, words int) {
	if n <= 4 {
		n = max(n, 2)
		return n - 2, n
	}
	shift := bits.Len(uint(n-1)) - 3
	steps := (n - 1) >> shift // 4 to 7
	return 3 + 4*(shift) + steps - 4, (steps + 1) << shift
}

// words of a block.
func (b *blocks) words(name uint64) []uint64 {
	chunk := name >> chunkBits
	return (*b.tables[chunk>>tableBits].Load()[chunk&(1<<tableBits-1)].Load())[name&(chunkWords-1):]
}

// content of a block. It stays as it is while somebody may look at it.
func (b *blocks) content(name uint64) (key, value []byte) {
	w := b.words(name)
	k, n := int(w[0]>>32), int(uint32(w[0]))
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w[1:]))), 8*(len(w)-1))
	return all[:k:k], all[k : k+n : k+n]
}

func (b *blocks) hasKey(value uint64, key []byte) bool {
	have, _ := b.content(value & payloadBits)
	return bytes.Equal(have, key)
}

// makeBlock cuts a block.
func (b *blocks) makeBlock(words int) (name uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if words > chunkWords/8 {
		name, _, err = b.makeChunk(words)
		return name, err
	}
	if len(b.left) < words {
		if b.at, b.left, err = b.makeChunk(chunkWords); err != nil {
			b.left = nil
			return 0, err
		}
	}
	name = b.at
	b.at, b.left = b.at+uint64(words), b.left[words:]
	return name, nil
}

func (b *blocks) makeChunk(words int) (name uint64, chunk []uint64, err error) {
	if size := int64(words) * 8; b.count == maxChunks || b.most > 0 && b.bytes.Load()+size > b.most {
		return 0, nil, ErrBlocks
	}
	b.bytes.Add(int64(words) * 8)
	chunk = make([]uint64, words)
	table := &b.tables[b.count>>tableBits]
	if table.Load() == nil {
		table.Store(new([1 << tableBits]atomic.Pointer[[]uint64]))
	}
	table.Load()[b.count&(1<<tableBits-1)].Store(&chunk)
	b.count++
	return uint64(b.count-1) << chunkBits, chunk, nil
}

// makeValue makes the word of a value, with a block if it needs one.
func (t *Thread) makeValue(key, value []byte, c class) (v uint64, err error) {
	if c != longKey && len(value) <= inlineBytes {
		for i, x := range value {
			v |= uint64(x) << (8 * i)
		}
		return uint64(len(value))<<60 | uint64(c) | v, nil
	}
	if len(key)+len(value) > MaxBytes {
		return 0, ErrTooLarge
	}
	if c != longKey {
		key = nil
	}
	name, err := t.takeBlock(1 + (len(key)+len(value)+7)/8)
	if err != nil {
		return 0, err
	}
	t.m.blocks.words(name)[0] = uint64(len(key))<<32 | uint64(len(value))
	k, n := t.m.blocks.content(name)
	copy(k, key)
	copy(n, value)
	return inBlock<<60 | uint64(c) | name, nil
}

// takeBlock takes a block that nobody looks at any more, or makes one.
func (t *Thread) takeBlock(words int) (name uint64, err error) {
	class, words := sizeClass(words)
	if name, ok := t.takeFree(class); ok {
		return name, nil
	}
	if len(t.limbo) >= collectAt {
		t.collect()
		if name, ok := t.takeFree(class); ok {
			return name, nil
		}
	}
	if name, err = t.m.blocks.makeBlock(words); err == nil {
		return name, nil
	}
	for range 3 { // epochs until what was replaced just now is free
		t.collect()
	}
	if name, ok := t.takeFree(class); ok {
		return name, nil
	}
	return 0, err
}

func (t *Thread) takeFree(class int) (name uint64, ok bool) {
	free := t.free[class]
	if len(free) == 0 {
		return 0, false
	}
	t.free[class] = free[:len(free)-1]
	return free[len(free)-1], true
}

// retire keeps the block of a value that was replaced until nobody looks at it.
func (t *Thread) retire(v uint64) {
	if v>>60 != inBlock {
		return
	}
	if t.m.lacks(FreedValueRead) {
		t.release(v)
		return
	}
	t.limbo = append(t.limbo, limbo{v & payloadBits, t.m.epoch.Load()})
}

// release makes the block of a value free.
func (t *Thread) release(v uint64) {
	if v>>60 != inBlock {
		return
	}
	name := v & payloadBits
	w := t.m.blocks.words(name)[0]
	class, _ := sizeClass(1 + (int(w>>32)+int(uint32(w))+7)/8)
	t.free[class] = append(t.free[class], name)
}

// collect begins a new epoch if every operation under way began in this one, and frees the blocks that were
// replaced two epochs ago: whoever could look at them has ended.
func (t *Thread) collect() {
	if len(t.limbo) == 0 {
		return
	}
	now, all := t.m.epoch.Load(), true
	for i := range t.m.threads {
		if e := t.m.threads[i].epoch.Load(); e != 0 && e != now {
			all = false
			break
		}
	}
	if all {
		t.m.epoch.CompareAndSwap(now, now+1)
	}
	n, last := 0, t.m.epoch.Load()
	for n < len(t.limbo) && t.limbo[n].epoch+2 <= last {
		t.release(inBlock<<60 | t.limbo[n].block)
		n++
	}
	if n > 0 {
		t.limbo = append(t.limbo[:0], t.limbo[n:]...)
	}
}
