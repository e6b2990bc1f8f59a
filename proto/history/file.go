package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// A file: preamble, header, blocks, end record; little endian. docs/HISTORY.md has it all.
//
//	0                8         12        16               16+n      20+n
//	+----------------+---------+---------+----------------+---------+---------
//	| "DRTMHIST"     | format  | header  | header, JSON   | CRC32C  | blocks
//	|                | version | bytes n |                | of all  |
//	+----------------+---------+---------+----------------+---------+---------
const (
	fileMagic     = "DRTMHIST"
	preambleBytes = 16
	headerOffset  = 12 // of what says how long the header is; errors of both point there
	// FormatVersion is that of the files that this package writes and reads.
	FormatVersion  = 1
	maxHeaderBytes = 1 << 20
)

// header is what a file says of the whole history.
type header struct {
	Nodes []Node `json:"nodes"`
	Names
}

// addNode keeps the nodes sorted and refuses one with two clocks.
func (h *header) addNode(n Node) error {
	i, found := slices.BinarySearchFunc(h.Nodes, n,
		func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	switch {
	case n.ErrorNs < 0:
		return fmt.Errorf("%w: clock of node %d has an error of %d ns; a bound is not negative",
			ErrMerge, n.ID, n.ErrorNs)
	case !found:
		h.Nodes = slices.Insert(h.Nodes, i, n)
	case h.Nodes[i] != n:
		return fmt.Errorf("%w: node %d has clock %q with error %d ns and clock %q with error %d ns; "+
			"record a node's workers with one clock", ErrMerge, n.ID, h.Nodes[i].Name,
			h.Nodes[i].ErrorNs, n.Name, n.ErrorNs)
	}
	return nil
}

// valid says whether a header that was read makes sense.
func (h *header) valid() bool {
	for i, n := range h.Nodes {
		if n.ErrorNs < 0 || i > 0 && h.Nodes[i-1].ID >= n.ID {
			return false
		}
	}
	return true
}

func (h *header) encode() ([]byte, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("header of %d bytes; at most %d, use shorter names", len(text),
			maxHeaderBytes)
	}
	b := []byte(fileMagic)
	b = binary.LittleEndian.AppendUint32(b, FormatVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// WriteFile saves the history with mode 0600. The file appears whole or not at all; one that is
// there is replaced. What is there and is no file, such as a pipe, is written to.
func (h *History) WriteFile(path string) error {
	if i, err := os.Stat(path); err == nil && !i.Mode().IsRegular() {
		return h.writeDevice(path)
	}
	partial := path + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("history: save: %w", err)
	}
	err = errors.Join(f.Chmod(0o600), h.write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return fmt.Errorf("history: save: %w", errorsJoin(err, os.Remove(partial)))
	}
	return nil
}

func (h *History) writeDevice(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(h.write(f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("history: save: %w", err)
	}
	return nil
}

func (h *History) write(to io.Writer) error {
	head, err := h.header.encode()
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(to, blockBytes)
	_, _ = w.Write(head) // errors stick until Flush
	if h.file != nil {
		if _, err := io.Copy(w, io.NewSectionReader(h.file, h.start, h.end-h.start)); err != nil {
			return err
		}
	}
	for _, s := range h.segments {
		if s.spill != nil {
			if _, err := io.Copy(w, io.NewSectionReader(s.spill, 0, s.spilled)); err != nil {
				return err
			}
		}
		for _, b := range s.memory {
			_, _ = w.Write(b)
		}
	}
	_, _ = w.Write(appendEnd(nil, h.total))
	return w.Flush()
}

// Open opens a saved history. It walks over the headers of all blocks, so that a file that is cut
// short is refused here; what is in the blocks is checked when Each reads it.
func Open(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	h := &History{file: f}
	if err := h.readHeader(); err != nil {
		return nil, errorsJoin(err, f.Close())
	}
	if err := h.walk(); err != nil {
		return nil, errorsJoin(err, f.Close())
	}
	return h, nil
}

func (h *History) readHeader() error {
	bad := func(at int64, what string) error { return &FormatError{h.file.Name(), at, what} }
	b := make([]byte, preambleBytes)
	if n, err := h.file.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return readError(h.file, 0, err)
	} else if !bytes.HasPrefix(b[:n], []byte(fileMagic)) {
		return bad(0, whatNotHistory)
	} else if n < preambleBytes {
		return bad(int64(n), whatCut)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != FormatVersion {
		return bad(8, fmt.Sprintf("format version %d, this program reads %d; use the drtmd that "+
			"wrote it", v, FormatVersion))
	}
	n := int(binary.LittleEndian.Uint32(b[12:]))
	if n > maxHeaderBytes {
		return bad(headerOffset, whatHeader)
	}
	b = append(b, make([]byte, n+4)...)
	if _, err := h.file.ReadAt(b[preambleBytes:], preambleBytes); err != nil {
		return readError(h.file, headerOffset, err)
	}
	body := b[:preambleBytes+n]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return bad(headerOffset, whatHeader)
	}
	d := json.NewDecoder(bytes.NewReader(body[preambleBytes:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&h.header); err != nil || !h.header.valid() {
		return bad(headerOffset, whatHeader)
	}
	h.start = int64(len(b))
	return nil
}

// walk finds the end record and sums up what the blocks hold.
func (h *History) walk() error {
	info, err := h.file.Stat()
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	bad := func(at int64, what string) error { return &FormatError{h.file.Name(), at, what} }
	var head [blockHeaderBytes]byte
	for at := h.start; ; {
		if _, err := h.file.ReadAt(head[:], at); err != nil {
			return readError(h.file, at, err)
		}
		if isEnd(head[:]) {
			c, ok := parseEnd(head[:])
			if !ok || c != h.total {
				return bad(at, whatCounts)
			}
			h.end = at
			if at += blockHeaderBytes; at != info.Size() {
				return bad(at, whatTrailing)
			}
			return nil
		}
		b, ok := parseBlock(head[:])
		if !ok {
			return bad(at, whatBlock)
		}
		if !h.knows(b.node) {
			return bad(at, whatContent)
		}
		next := at + blockHeaderBytes + int64(b.bytes)
		if next > info.Size() {
			return bad(at, whatCut)
		}
		h.total.blocks++
		h.total.txns += uint64(b.txns)
		h.total.ops += uint64(b.ops)
		at = next
	}
}

// knows says whether the header has the node.
func (h *History) knows(id NodeID) bool {
	_, found := slices.BinarySearchFunc(h.header.Nodes, id,
		func(n Node, id NodeID) int { return cmp.Compare(n.ID, id) })
	return found
}
