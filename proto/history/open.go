package history

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
)

// Open opens a saved history. It walks over the headers of all blocks, so that a file that is cut
// short is refused here; what is in the blocks is checked when Each reads it.
//
// Nodes in a file of format 1 get a resolution of twice their error: its writer knew no better.
func Open(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	h := &History{workers: map[WorkerID]bool{}}
	o := &opener{History: h, file: f}
	if err := o.readHeader(); err != nil {
		return nil, errorsJoin(err, f.Close())
	}
	if err := o.walk(); err != nil {
		return nil, errorsJoin(err, f.Close())
	}
	h.sources = []source{o.source}
	return h, nil
}

// OpenAll opens the saved histories of the parts of one run as one history. None of it is read into
// memory. names take the place of theirs.
func OpenAll(names Names, paths ...string) (*History, error) {
	all := &History{header: header{Names: names}, workers: map[WorkerID]bool{}, format: FormatVersion}
	for i, path := range paths {
		h, err := Open(path)
		if err == nil {
			all.sources = append(all.sources, h.sources...)
			err = all.join(h, i == 0)
		}
		if err != nil {
			return nil, errorsJoin(err, all.Close())
		}
	}
	return all, nil
}

// join takes in what the header of a part says, and its counts.
func (h *History) join(part *History, first bool) error {
	for w := range part.workers {
		if h.workers[w] {
			return twoRecordings(w)
		}
		h.workers[w] = true
	}
	a, b := &h.header, &part.header
	if first {
		a.Versions, a.Initial, a.Final = b.Versions, b.Initial, b.Final
	}
	switch {
	case a.Versions != b.Versions:
		return fmt.Errorf("%w: versions are %q in one part and %q in another", ErrMerge, a.Versions,
			b.Versions)
	case a.Initial != b.Initial || (a.Final == "") != (b.Final == ""):
		return fmt.Errorf("%w: one part has the content of its tables and another has not", ErrMerge)
	case b.Final == finalPart:
		a.Final = finalPart
	}
	for _, n := range b.Nodes {
		if err := a.addNode(n); err != nil {
			return err
		}
	}
	for _, r := range b.Replicas {
		if err := a.addReplica(r); err != nil {
			return err
		}
	}
	h.total.add(part.total)
	a.Decisions += b.Decisions
	for m := range h.keys {
		h.keys[m] += part.keys[m]
	}
	return nil
}

// opener reads what stands around the blocks of a file.
type opener struct {
	*History
	file   *os.File
	source source
}

func (o *opener) bad(at int64, what string) error { return &FormatError{o.file.Name(), at, what} }

func (o *opener) readHeader() error {
	b := make([]byte, preambleBytes)
	if n, err := o.file.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return readError(o.file, 0, err)
	} else if !bytes.HasPrefix(b[:n], []byte(fileMagic)) {
		return o.bad(0, whatNotHistory)
	} else if n < preambleBytes {
		return o.bad(int64(n), whatCut)
	}
	o.format = binary.LittleEndian.Uint32(b[8:])
	if o.format < firstFormat || o.format > FormatVersion {
		return o.bad(8, fmt.Sprintf("format version %d, this program reads %d to %d; use the drtmd "+
			"that wrote it", o.format, firstFormat, FormatVersion))
	}
	n := int(binary.LittleEndian.Uint32(b[12:]))
	if n > maxHeaderBytes {
		return o.bad(headerOffset, whatHeader)
	}
	b = append(b, make([]byte, n+4)...)
	if _, err := o.file.ReadAt(b[preambleBytes:], preambleBytes); err != nil {
		return readError(o.file, headerOffset, err)
	}
	body := b[:preambleBytes+n]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return o.bad(formatOffset, whatHeader)
	}
	d := json.NewDecoder(bytes.NewReader(body[preambleBytes:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&o.header); err != nil || !o.header.valid() {
		return o.bad(headerOffset, whatHeader)
	}
	if o.format == firstFormat {
		for i := range o.header.Nodes {
			c := &o.header.Nodes[i].Clock
			c.ResolutionNs = 2 * min(c.ErrorNs, math.MaxInt64/2)
		}
	}
	o.source = source{file: o.file, start: int64(len(b))}
	return nil
}

// walk finds the end record and sums up what the blocks hold.
func (o *opener) walk() error {
	info, err := o.file.Stat()
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	var head [blockHeaderBytes]byte
	for at := o.source.start; ; {
		if _, err := o.file.ReadAt(head[:], at); err != nil {
			return readError(o.file, at, err)
		}
		if isEnd(head[:]) {
			c, ok := parseEnd(head[:])
			if !ok || c != o.total {
				return o.bad(at, whatCounts)
			}
			o.source.end = at
			if at += blockHeaderBytes; at != info.Size() {
				return o.bad(at, whatTrailing)
			}
			return nil
		}
		b, ok := parseBlock(head[:])
		if !ok {
			return o.bad(at, whatBlock)
		}
		if !o.fits(b) {
			return o.bad(at, whatContent)
		}
		next := at + blockHeaderBytes + int64(b.bytes)
		if next > info.Size() {
			return o.bad(at, whatCut)
		}
		o.take(b)
		at = next
	}
}

// fits reports whether the header of the file lets one expect the block.
func (o *opener) fits(b blockHeader) bool {
	if b.magic == tableMagic {
		known, _ := o.Knows(b.moment)
		return known && o.fitsReplica(b)
	}
	_, found := slices.BinarySearchFunc(o.header.Nodes, b.node,
		func(n Node, id NodeID) int { return cmp.Compare(n.ID, id) })
	return found
}

// fitsReplica reports whether a block of a table is of a replica that the header names, or of none if it
// names none.
func (o *opener) fitsReplica(b blockHeader) bool {
	shard := b.owner >> 16
	if shard == 0 || b.moment == Initial {
		return shard == 0 && (b.moment == Initial || len(o.header.Replicas) == 0)
	}
	_, found := slices.BinarySearchFunc(o.header.Replicas, Replica{uint16(shard - 1), b.node}, compareReplicas)
	return found
}

// take counts a block.
func (o *opener) take(b blockHeader) {
	o.total.blocks++
	if b.magic == tableMagic {
		o.keys[b.moment] += uint64(b.items)
		return
	}
	o.total.txns += uint64(b.items)
	o.total.ops += uint64(b.ops)
	o.workers[WorkerID(b.owner)] = true
}
