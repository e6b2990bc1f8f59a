package rows

import (
	"encoding/binary"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// transaction is one of a client. It accesses three rows, and of each a field first.
type transaction struct {
	kind     Kind
	keys     [accessed]proto.Key
	fields   [accessed]int
	decl     proto.Decl
	accesses [accessed]proto.Access

	row, spare [ValueBytes]byte
}

// does is what it adds.
func (t *transaction) does() workload.Quantities {
	switch t.kind {
	case Add:
		return workload.Quantities{2}
	case Whole:
		return workload.Quantities{3}
	}
	return workload.Quantities{}
}

// declare names the rows with their fields.
func (t *transaction) declare() {
	n := accessed
	if t.kind == Whole || t.kind == Frame {
		n = 2
	}
	for i, k := range t.keys[:n] {
		a := &t.accesses[i]
		*a = proto.Access{Table: Rows, Mode: proto.ModeRead, Key: k, Fields: [proto.MaxFields]proto.Field{part(t.fields[i], false)}}
		switch {
		case t.kind == Whole && i == 0:
			a.Mode, a.Fields = proto.ModeWrite, [proto.MaxFields]proto.Field{}
		case t.kind == Frame && i == 0:
			a.Mode, a.Fields = proto.ModeWrite, [proto.MaxFields]proto.Field{part(firstEdge, true), part(lastEdge, true)}
		case t.kind == Add && i < 2:
			a.Mode, a.Fields[0].Write = proto.ModeWrite, true
			if i == 0 && t.fields[0] != t.fields[2] {
				a.Fields[1] = part(t.fields[2], false)
			}
		}
	}
	t.decl.Accesses = t.accesses[:n]
}

func part(at int, write bool) proto.Field {
	return proto.Field{Offset: uint16(at), Bytes: uint16(bytesOf(at)), Write: write}
}

// Execute implements proto.Program.
func (t *transaction) Execute(tx proto.Txn) error {
	switch t.kind {
	case Whole:
		if err := t.addAll(tx, t.keys[0]); err != nil {
			return err
		}
		return t.read(tx, t.keys[1], t.fields[1])
	case Frame:
		for _, at := range [...]int{firstEdge, lastEdge} {
			if err := t.add(tx, t.keys[0], at); err != nil {
				return err
			}
		}
		return t.read(tx, t.keys[1], t.fields[1])
	case Look:
		for i, k := range t.keys {
			if err := t.read(tx, k, t.fields[i]); err != nil {
				return err
			}
		}
		return t.lookAtEdges(tx, t.keys[0])
	}
	if err := t.add(tx, t.keys[0], t.fields[0]); err != nil {
		return err
	}
	if err := t.read(tx, t.keys[0], t.fields[2]); err != nil {
		return err
	}
	if err := t.add(tx, t.keys[1], t.fields[1]); err != nil {
		return err
	}
	return t.read(tx, t.keys[2], t.fields[2])
}

// read reads a field into row.
func (t *transaction) read(tx proto.Txn, k proto.Key, at int) error {
	end := at + bytesOf(at)
	err := proto.ReadAt(tx, Rows, k, at, t.row[at:end], t.row[:])
	if err == nil && at == cross && !crossed(t.row[:]) {
		return ErrCorrupt
	}
	return err
}

// lookAtEdges compares the edges of a row.
func (t *transaction) lookAtEdges(tx proto.Txn, k proto.Key) error {
	for _, at := range [...]int{firstEdge, lastEdge} {
		if err := t.read(tx, k, at); err != nil {
			return err
		}
	}
	if !framed(t.row[:]) {
		return ErrCorrupt
	}
	return nil
}

// add adds 1 to a field.
func (t *transaction) add(tx proto.Txn, k proto.Key, at int) error {
	if err := t.read(tx, k, at); err != nil {
		return err
	}
	t.raise(at)
	return proto.WriteAt(tx, Rows, k, at, t.row[at:at+bytesOf(at)], t.spare[:])
}

// raise adds 1 to a field of row.
func (t *transaction) raise(at int) {
	n := word(t.row[:], at) + 1
	for end := at + bytesOf(at); at < end; at += wordBytes {
		binary.LittleEndian.PutUint64(t.row[at:], n)
	}
}

// addAll adds 1 to all fields of a row.
func (t *transaction) addAll(tx proto.Txn, k proto.Key) error {
	if err := tx.GetForUpdate(Rows, k, t.row[:]); err != nil {
		return err
	}
	if !whole(t.row[:]) {
		return ErrCorrupt
	}
	for _, at := range [...]int{near, firstEdge, cross, far, lastEdge} {
		t.raise(at)
	}
	return tx.Write(Rows, k, t.row[:])
}
