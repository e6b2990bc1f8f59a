package proto

import "drtmd/verbs/fiber"

// Single runs transactions of one record, which it declares and retries (Dandelion §4.2.1). It belongs to one fiber. Its methods return what Runner.Run does, and do not allocate: ErrNotFound and ErrExists come
// with Aborted, and are as strictly serializable as what commits.
type Single struct {
	Runner *Runner

	decl    Decl
	access  [1]Access
	value   []byte
	program singleProgram
}

// singleProgram is the code of a Single's transaction.
type singleProgram struct{ s *Single }

// Execute implements Program.
func (p *singleProgram) Execute(tx Txn) error {
	s, a := p.s, &p.s.access[0]
	switch a.Mode {
	case ModeWrite:
		return tx.Write(a.Table, a.Key, s.value)
	case ModeInsert:
		return tx.Insert(a.Table, a.Key, s.value)
	case ModeDelete:
		return tx.Delete(a.Table, a.Key)
	}
	return tx.Read(a.Table, a.Key, s.value)
}

// GetOne copies a record's value to dst, which has the table's size: ErrNotFound if there is none. Optimistic engines
// read it at one moment, and send nothing to commit it.
func (s *Single) GetOne(f *fiber.Fiber, t TableID, k Key, dst []byte) (Result, error) {
	return s.run(f, Access{Table: t, Mode: ModeRead, Key: k}, dst)
}

// PutOne replaces the value of a record: ErrNotFound if there is none.
func (s *Single) PutOne(f *fiber.Fiber, t TableID, k Key, value []byte) (Result, error) {
	return s.run(f, Access{Table: t, Mode: ModeWrite, Key: k}, value)
}

// InsertOne adds a record: ErrExists if there is one.
func (s *Single) InsertOne(f *fiber.Fiber, t TableID, k Key, value []byte) (Result, error) {
	return s.run(f, Access{Table: t, Mode: ModeInsert, Key: k}, value)
}

// DeleteOne removes a record: ErrNotFound if there is none.
func (s *Single) DeleteOne(f *fiber.Fiber, t TableID, k Key) (Result, error) {
	return s.run(f, Access{Table: t, Mode: ModeDelete, Key: k}, nil)
}

func (s *Single) run(f *fiber.Fiber, a Access, value []byte) (Result, error) {
	s.access[0], s.value, s.program.s = a, value, s
	s.decl = Decl{Kind: 1, ReadOnly: a.Mode == ModeRead, Accesses: s.access[:]}
	return s.Runner.Run(f, &s.decl, &s.program)
}
