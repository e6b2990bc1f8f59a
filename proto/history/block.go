package history

import (
	"encoding/binary"
	"hash/crc32"
)

// A block, little endian. The payload is transactions of one worker, or what one table of one node
// held.
//
//	0       4       8      10      12      16      20       24       28       32
//	+-------+-------+-------+-------+-------+-------+--------+--------+--------+---------
//	| "HBLK"| worker| node  | 0     | txns  | ops   | payload| payload| header | payload
//	| "HTAB"| t | s |       | moment| keys  | 0     | bytes  | CRC32C | CRC32C |
//	+-------+-------+-------+-------+-------+-------+--------+--------+--------+---------
//
// t is a table. s is 0, or the shard whose replica the node has, and 1.
//
// The end record has the same size.
//
//	0       4        8               16              24              28       32
//	+-------+--------+---------------+---------------+---------------+--------+
//	| "HEND"| blocks | txns          | ops           | 0             | CRC32C |
//	+-------+--------+---------------+---------------+---------------+--------+
const (
	blockHeaderBytes = 32
	blockMagic       = 0x4b4c4248 // "HBLK"
	tableMagic       = 0x42415448 // "HTAB"
	endMagic         = 0x444e4548 // "HEND"

	// blockBytes is when a block is finished; blockSlack is room for the transaction that does it.
	blockBytes = 256 << 10
	blockSlack = 4 << 10
	// maxPayloadBytes bounds the memory that reading a block takes.
	maxPayloadBytes = blockBytes + maxTxnBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockHeader is what precedes a payload.
type blockHeader struct {
	magic  uint32
	owner  uint32 // a WorkerID, or a Table and above it the shard and 1
	node   NodeID
	moment Moment // of tables; 0 for transactions
	items  uint32 // transactions, or keys
	ops    uint32 // of transactions
	bytes  uint32 // of the payload
	crc    uint32 // of the payload
}

// seal fills in the header of a block with its payload; bytes and crc are those of the payload.
func seal(b []byte, h blockHeader) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], h.magic)
	le.PutUint32(b[4:], h.owner)
	le.PutUint16(b[8:], uint16(h.node))
	le.PutUint16(b[10:], uint16(h.moment))
	le.PutUint32(b[12:], h.items)
	le.PutUint32(b[16:], h.ops)
	le.PutUint32(b[20:], uint32(len(b)-blockHeaderBytes))
	le.PutUint32(b[24:], crc32.Checksum(b[blockHeaderBytes:], castagnoli))
	le.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
}

// parseBlock reads the header of a block; false if it is none.
func parseBlock(b []byte) (blockHeader, bool) {
	le := binary.LittleEndian
	h := blockHeader{magic: le.Uint32(b), owner: le.Uint32(b[4:]), node: NodeID(le.Uint16(b[8:])),
		moment: Moment(le.Uint16(b[10:])), items: le.Uint32(b[12:]), ops: le.Uint32(b[16:]),
		bytes: le.Uint32(b[20:]), crc: le.Uint32(b[24:])}
	if le.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) || h.bytes > maxPayloadBytes {
		return h, false
	}
	if h.magic == tableMagic {
		return h, h.ops == 0 && h.items <= maxBlockKeys &&
			(h.moment == Initial || h.moment == Final)
	}
	return h, h.magic == blockMagic && h.moment == 0 &&
		uint64(h.items)*minTxnBytes <= uint64(h.bytes) && uint64(h.ops)*minOpBytes <= uint64(h.bytes)
}

func appendEnd(b []byte, c counts) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = le.AppendUint32(b, endMagic)
	b = le.AppendUint32(b, c.blocks)
	b = le.AppendUint64(b, c.txns)
	b = le.AppendUint64(b, c.ops)
	b = le.AppendUint32(b, 0)
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// isEnd says whether the 32 bytes claim to be an end record, parseEnd whether they are one.
func isEnd(b []byte) bool { return binary.LittleEndian.Uint32(b) == endMagic }

func parseEnd(b []byte) (counts, bool) {
	le := binary.LittleEndian
	c := counts{blocks: le.Uint32(b[4:]), txns: le.Uint64(b[8:]), ops: le.Uint64(b[16:])}
	return c, isEnd(b) && le.Uint32(b[24:]) == 0 &&
		le.Uint32(b[28:]) == crc32.Checksum(b[:28], castagnoli)
}

// eachTxn decodes a payload. r is reused from one transaction to the next.
func eachTxn(h blockHeader, payload []byte, r *Record, fn func(*Record) error) error {
	if crc32.Checksum(payload, castagnoli) != h.crc {
		return errChecksum
	}
	d := decoder{rest: payload}
	var prev delta
	var ops uint64
	r.ID.Worker, r.Node = WorkerID(h.owner), h.node
	for range h.items {
		if err := d.txn(&prev, r); err != nil {
			return err
		}
		ops += uint64(len(r.Ops))
		if err := fn(r); err != nil {
			return &callerError{err}
		}
	}
	if len(d.rest) > 0 || ops != uint64(h.ops) {
		return errContent
	}
	return nil
}
