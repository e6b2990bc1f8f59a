package hardware

import (
	"encoding/binary"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
)

// localRecord is a record of the own node in the read or write set of HADES-H's software.
type localRecord struct {
	header  bloom.Line
	version uint64 // when it was read
	written bool
}

// ReadRecord is a read of a record of the own node by the software of HADES-H: of its header line, which comes first,
// and others. If it is denied, try again when a Locking Buffer was given back. The lines are read in parallel: it takes
// as long as the slowest. After a conflict the transaction has ended.
func (n *Node) ReadRecord(tx directory.TX, record []bloom.Line, to []Data) directory.Access {
	t := n.running(tx)
	for _, line := range record {
		if n.dir.Buffers().Denies(directory.Owner(tx), line, false) {
			return n.denied(tx, record, false, directory.Access{Verdict: directory.Denied, Cycles: n.cfg.Directory.LLC.Cycles})
		}
	}
	slowest := directory.Access{Verdict: directory.Granted}
	for i, line := range record {
		if a := n.dir.Software(t.core, line, false); a.Cycles > slowest.Cycles {
			slowest = a
		}
		if own := t.wrote(line); own != nil {
			to[i] = own.data
		} else {
			n.cfg.Memory.Load(line, &to[i])
		}
	}
	if t.record(record[0]) == nil {
		t.records = append(t.records, localRecord{header: record[0], version: n.committed(record[0])})
	}
	for _, line := range record {
		t.access(line, false)
	}
	t.readLines = append(t.readLines, record...)
	return slowest
}

func (t *transaction) record(header bloom.Line) *localRecord {
	for i := range t.records {
		if t.records[i].header == header {
			return &t.records[i]
		}
	}
	return nil
}

// committed is the version that memory has of a record.
func (n *Node) committed(header bloom.Line) uint64 {
	n.cfg.Memory.Load(header, &n.header)
	return n.version(&n.header)
}

func (n *Node) version(header *Data) uint64 {
	return binary.LittleEndian.Uint64(header[n.cfg.VersionAt:])
}

func (n *Node) setVersion(header *Data, v uint64) {
	binary.LittleEndian.PutUint64(header[n.cfg.VersionAt:], v)
}

// WriteRecord buffers a write to bytes of a line of a record of the own node. The record was read before. Its version will
// be the one that follows, or what is written there if that is newer.
func (n *Node) WriteRecord(tx directory.TX, header, line bloom.Line, offset int, bytes []byte) {
	t := n.running(tx)
	r := t.record(header)
	invariant.Assert(r != nil, "hardware: HADES-H reads a record before it writes it")
	r.written = true
	t.access(header, true)
	t.access(line, true)
	n.buffer(t, header)
	copy(n.buffer(t, line).data[offset:], bytes)
}

// Advance gives the next version to the transaction's copy of a header line of another node: once for each record
// that it writes. It is the one that follows, or a newer one.
func (n *Node) Advance(tx directory.TX, node NodeID, header bloom.Line, newer uint64) {
	r := n.running(tx).copyOf(node, header)
	invariant.Assert(r != nil, "hardware: a version is advanced that was not fetched")
	r.written = true
	if !n.lacks(VersionNotAdvanced) {
		n.setVersion(&r.data, max(newer, n.version(&r.data)+1))
	}
}

// lockRecords has the NIC build filters of all local records that were read or written, and locks with them.
func (n *Node) lockRecords(tx directory.TX) (lines []bloom.Line, cycles int, v directory.Verdict) {
	t := &n.txs[tx]
	n.reads.Clear()
	n.writes.Clear()
	n.written = n.written[:0]
	for _, line := range t.readLines {
		if !n.lacks(LocalReadsUnlocked) {
			n.reads.Insert(line)
		}
	}
	for i := range t.local {
		n.writes.Insert(t.local[i].line)
		n.written = append(n.written, t.local[i].line)
	}
	cycles = n.cfg.Cycles.Line * (len(t.readLines) + len(t.local))
	if n.lacks(ValidatedBeforeAcks) && !n.unchanged(t) {
		return nil, cycles, directory.Conflict
	}
	if n.lacks(LocalLockMissing) {
		return n.written, cycles, directory.Granted
	}
	if n.dir.Buffers().Reserved(directory.Owner(tx), t.readLines, false) {
		// Its validation would meet that transaction's lock.
		return nil, cycles, directory.Conflict
	}
	return n.written, cycles, n.dir.Buffers().Lock(directory.Owner(tx), n.reads, n.writes, n.written)
}

// Validate is the Local Validation of a transaction whose Acks are all there (§V-D). Granted: it has committed.
// Conflict: it was squashed, because a version has changed or a Locking Buffer says that it will. Versions are read in
// parallel, and so are the updates stored.
func (n *Node) Validate(tx directory.TX) directory.Access {
	t := &n.txs[tx]
	invariant.Assert(t.phase == validating, "hardware: a validation before the Acks")
	if !n.lacks(ValidatedBeforeAcks) {
		if n.changing(tx) || !n.unchanged(t) {
			cycles := n.rereads(t)
			n.drop(tx, Invalid)
			n.settle()
			return directory.Access{Verdict: directory.Conflict, Cycles: cycles}
		}
	}
	cycles := n.rereads(t) + n.stores(t)
	for i := range t.records {
		if r := &t.records[i]; r.written {
			header := &t.wrote(r.header).data
			n.setVersion(header, max(n.version(header), r.version+1))
		}
	}
	n.persist(tx)
	n.settle()
	return directory.Access{Verdict: directory.Granted, Cycles: cycles}
}

// rereads is how long it takes to read the versions again.
func (n *Node) rereads(t *transaction) (cycles int) {
	for i := range t.records {
		cycles = max(cycles, n.dir.Reread(t.records[i].header).Cycles)
	}
	return cycles
}

// stores is how long it takes to store what was written.
func (n *Node) stores(t *transaction) (cycles int) {
	for i := range t.local {
		cycles = max(cycles, n.dir.Software(t.core, t.local[i].line, true).Cycles)
	}
	return cycles
}

// changing reports whether an update of a local record that the transaction has read is on its way. To wait for it would
// be a deadlock, if the one who updates has read what this transaction updates at another node, and waits as well.
func (n *Node) changing(tx directory.TX) bool {
	if n.lacks(ValidatedInPrivateCache) {
		return false
	}
	for i := range n.txs[tx].records {
		if n.dir.Buffers().Denies(directory.Owner(tx), n.txs[tx].records[i].header, false) {
			return true
		}
	}
	return false
}

// unchanged reports whether every local record has the version that it had when it was read.
func (n *Node) unchanged(t *transaction) bool {
	for i := range t.records {
		r := &t.records[i]
		if r.written && n.lacks(WritesNotValidated) {
			continue
		}
		if n.committed(r.header) != r.version {
			return false
		}
	}
	return true
}
