package history

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"drtmd/internal/durable"
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
	formatOffset  = 8  // of the format, the first thing that may be damaged and still make sense
	headerOffset  = 12 // of what says how long the header is; errors of both point there
	// FormatVersion is that of the files that this package writes. It reads those of format 3 too, which knew
	// neither additions nor pieces; of format 2, which knew neither names of transactions nor decisions nor
	// replicas; and of format 1, which knew neither the content of tables nor the succession of versions nor the
	// resolution of clocks.
	FormatVersion  = 4
	firstFormat    = 1
	maxHeaderBytes = 1 << 20
)

// header is what a file says of the whole history.
type header struct {
	Nodes []Node `json:"nodes"`
	Names
	Versions Succession `json:"versions,omitempty"`
	Initial  bool       `json:"initial,omitempty"`
	Final    string     `json:"final,omitempty"`
	Replicas []Replica  `json:"replicas,omitempty"`
	// Decisions are how many transactions are decisions of survivors, or continue chains.
	Decisions uint64 `json:"decisions,omitempty"`
}

// Values of header.Final; "" is none.
const (
	finalWhole = "whole"
	finalPart  = "part"
)

// addNode keeps the nodes sorted and refuses one with two clocks.
func (h *header) addNode(n Node) error {
	i, found := slices.BinarySearchFunc(h.Nodes, n,
		func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	switch {
	case n.ErrorNs < 0 || n.ResolutionNs < 0:
		return fmt.Errorf("%w: clock of node %d has an error of %d ns and a resolution of %d ns; "+
			"a bound is not negative", ErrMerge, n.ID, n.ErrorNs, n.ResolutionNs)
	case !found:
		h.Nodes = slices.Insert(h.Nodes, i, n)
	case h.Nodes[i] != n:
		return fmt.Errorf("%w: node %d has clock %+v and clock %+v; record a node's workers with "+
			"one clock", ErrMerge, n.ID, h.Nodes[i].Clock, n.Clock)
	}
	return nil
}

// addReplica keeps the replicas sorted.
func (h *header) addReplica(r Replica) error {
	i, found := slices.BinarySearchFunc(h.Replicas, r, compareReplicas)
	if found {
		return fmt.Errorf("%w: the replica of shard %d on node %d is there twice", ErrMerge, r.Shard, r.Node)
	}
	h.Replicas = slices.Insert(h.Replicas, i, r)
	return nil
}

// valid says whether a header that was read makes sense.
func (h *header) valid() bool {
	for i, n := range h.Nodes {
		if n.ErrorNs < 0 || n.ResolutionNs < 0 || i > 0 && h.Nodes[i-1].ID >= n.ID {
			return false
		}
	}
	for i := range h.Replicas {
		if i > 0 && compareReplicas(h.Replicas[i-1], h.Replicas[i]) >= 0 {
			return false
		}
	}
	return (h.Versions == Growing || h.Versions == Counting) &&
		(h.Final == "" || h.Final == finalWhole || h.Final == finalPart)
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
	if err := durable.Write(path, 0o600, h.write); err != nil {
		return fmt.Errorf("history: save: %w", err)
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
	for _, s := range h.sources {
		if s.file != nil {
			part := io.NewSectionReader(s.file, s.start, s.end-s.start)
			if _, err := io.Copy(w, part); err != nil {
				return err
			}
		}
		for _, b := range s.blocks {
			_, _ = w.Write(b)
		}
	}
	_, _ = w.Write(appendEnd(nil, h.total))
	return w.Flush()
}
