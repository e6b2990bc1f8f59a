package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// A kept recording: head, blocks, and the block under construction, whose header is zero; little endian.
// Each transaction is written when it ends, so that only those are lost with a killed process that had not
// ended. With the machine all of it may be lost.
//
//	0                8         12          12+n
//	+----------------+---------+-----------+--------+---------
//	| "DRTMKEPT"     | head    | head,     | CRC32C | blocks
//	|                | bytes n | JSON      | of all |
//	+----------------+---------+-----------+--------+---------
const keptMagic = "DRTMKEPT"

// keptHead says whose recording it is.
type keptHead struct {
	Worker WorkerID `json:"worker"`
	Node   Node     `json:"node"`
}

// keep writes the head of a kept recording.
func (r *Recorder) keep() error {
	text, err := json.Marshal(keptHead{r.options.Worker, Node{r.options.Node, r.options.Clock}})
	if err != nil {
		return err
	}
	b := append([]byte(keptMagic), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(text)))
	b = append(b, text...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	r.spill, r.spilled, r.spillStart = r.options.Keep, int64(len(b)), int64(len(b))
	return r.write(b, 0)
}

// keepTxn writes the end of the block under construction from an index on.
func (r *Recorder) keepTxn(from int) {
	if r.err == nil && r.options.Keep != nil {
		r.err = r.write(r.block[from:], r.spilled+int64(from))
	}
}

// keepBlock writes the header of the block that was finished.
func (r *Recorder) keepBlock() {
	if r.err == nil {
		r.err = r.write(r.block[:blockHeaderBytes], r.spilled)
	}
	r.spilled += int64(len(r.block))
	r.spare, r.block = append(r.spare, r.block[:0]), nil
}

func (r *Recorder) write(b []byte, at int64) error {
	if _, err := r.options.Keep.WriteAt(b, at); err != nil {
		return fmt.Errorf("history: keep the recording: %w; use a directory with room", err)
	}
	return nil
}

// Salvage reads what a recorder had kept (Options.Keep) whose process was killed: all transactions that had
// ended. The Segment owns the file, which it does not remove. A file that is damaged is a *FormatError.
func Salvage(f *os.File) (*Segment, error) {
	bad := func(at int64, what string) error { return &FormatError{f.Name(), at, what} }
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	b := make([]byte, min(info.Size(), maxHeaderBytes))
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), b); err != nil {
		return nil, readError(f, 0, err)
	}
	if len(b) < 16 || string(b[:8]) != keptMagic {
		return nil, bad(0, whatNotHistory)
	}
	n := int64(binary.LittleEndian.Uint32(b[8:])) + 12
	if n+4 > int64(len(b)) || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, bad(8, whatHeader)
	}
	var head keptHead
	if err := json.Unmarshal(b[12:n], &head); err != nil {
		return nil, bad(12, whatHeader)
	}
	s := &Segment{worker: head.Worker, node: head.Node, spill: f, spillStart: n + 4, borrowed: true}
	if err := s.salvage(info.Size()); err != nil {
		return nil, err
	}
	return s, nil
}

// salvage counts what is in the file, and takes over the block that was under construction.
func (s *Segment) salvage(size int64) error {
	var head [blockHeaderBytes]byte
	var record Record
	count := func(r *Record) error {
		s.total.txns++
		s.total.ops += uint64(len(r.Ops))
		if r.decides() {
			s.decisions++
		}
		return nil
	}
	for at := s.spillStart; ; {
		s.spilled = at
		if at+blockHeaderBytes > size {
			return nil
		}
		if _, err := s.spill.ReadAt(head[:], at); err != nil {
			return readError(s.spill, at, err)
		}
		h, ok := parseBlock(head[:])
		if !ok && head != [blockHeaderBytes]byte{} {
			return &FormatError{s.spill.Name(), at, whatBlock}
		}
		bytes := size - at - blockHeaderBytes
		if ok {
			bytes = int64(h.bytes)
		}
		if bytes > min(size-at-blockHeaderBytes, maxPayloadBytes) {
			return &FormatError{s.spill.Name(), at, whatCut}
		}
		payload := make([]byte, bytes)
		if _, err := s.spill.ReadAt(payload, at+blockHeaderBytes); err != nil && !errors.Is(err, io.EOF) {
			return readError(s.spill, at, err)
		}
		if !ok {
			s.takeLast(payload, count)
			return nil
		}
		if err := eachTxn(h, payload, &record, count); err != nil {
			return &FormatError{s.spill.Name(), at, fromCaller(err).Error()}
		}
		s.total.blocks++
		at += blockHeaderBytes + bytes
	}
}

// takeLast makes a block of the transactions that are whole in the payload of one under construction.
func (s *Segment) takeLast(payload []byte, count func(*Record) error) {
	d, prev := decoder{rest: payload}, delta{}
	h := blockHeader{magic: blockMagic, owner: uint32(s.worker), node: s.node.ID}
	whole := 0
	for r := (Record{}); len(d.rest) > 0 && d.txn(&prev, &r) == nil; {
		whole = len(payload) - len(d.rest)
		h.items++
		h.ops += uint32(len(r.Ops))
		_ = count(&r) // never fails
	}
	if h.items == 0 {
		return
	}
	b := append(make([]byte, blockHeaderBytes, blockHeaderBytes+whole), payload[:whole]...)
	seal(b, h)
	s.memory = append(s.memory, b)
	s.total.blocks++
}
