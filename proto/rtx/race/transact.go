package race

import (
	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/dtx"
	"drtmd/verbs/fiber"
)

// Tx is an attempt of a transaction that changes the directory and subtables: an rtx.Tx or a dtx.Tx.
type Tx interface {
	Read(p rtx.Ptr) ([]byte, error)
	Update(p rtx.Ptr) ([]byte, error)
	Write(p rtx.Ptr, class int) ([]byte, error)
	Alloc(class int) (rtx.Ptr, []byte, error)
	// WhenLocked has the commit call a function before it is decided, when all that is updated is locked and valid. New
	// objects are written behind that. Reread reads the value of an object that is updated, in there.
	WhenLocked(call func() error)
	Reread(p rtx.Ptr) ([]byte, error)
}

// transactional is a client with transactions. The metadata of an object are 16 bytes: a word that tells whether it is
// locked, and one that every transaction changes which updates it.
type transactional interface {
	// transact runs a transaction until it commits, or its code returns an error of its own on a valid view. anew begins
	// one that nothing is in.
	transact(f *fiber.Fiber, view bool, body func(Tx) error) error
	anew(f *fiber.Fiber)
	metaAt(p rtx.Ptr) int
	locked(w uint64) bool
	// meet waits for a lock that was met n times before, or repairs what it is of.
	meet(f *fiber.Fiber, p rtx.Ptr, w uint64, n int) error
	// blockOf is the class and the place of an object's block, by the second word of its metadata.
	blockOf(p rtx.Ptr, d uint64) (class, at int)
}

// repairable has the transactions of package rtx.
type repairable struct{ *rtx.Client }

func (r repairable) transact(f *fiber.Fiber, view bool, body func(Tx) error) error {
	run := r.Run
	if view {
		run = r.View
	}
	return run(f, func(tx *rtx.Tx) error { return body(tx) })
}

func (r repairable) anew(f *fiber.Fiber) {
	_, _ = r.Begin(f, true) // only a broken client refuses
}

func (r repairable) metaAt(p rtx.Ptr) int { return r.MetaAt(p) }

func (r repairable) locked(w uint64) bool { return rtx.Locked(w) }

func (r repairable) meet(f *fiber.Fiber, p rtx.Ptr, w uint64, n int) error { return r.Meet(f, p, w, n) }

func (r repairable) blockOf(_ rtx.Ptr, d uint64) (class, at int) { return r.BlockAt(d) }

// distributed has the transactions of package dtx, which change objects in place: the metadata is in front of the value.
type distributed struct{ *dtx.Client }

func (d distributed) transact(f *fiber.Fiber, view bool, body func(Tx) error) error {
	for n := 0; ; n++ {
		tx, err := d.Begin(f, view)
		if err != nil {
			return err
		}
		if err = body(tx); err == nil {
			err = tx.Commit()
		} else if proto.AbortReason(err) == 0 {
			if invalid := tx.Rollback(); invalid != nil {
				err = invalid
			}
		}
		if proto.AbortReason(err) == 0 {
			return err
		}
		if err := d.Pause(f, n); err != nil {
			return err
		}
	}
}

func (d distributed) anew(f *fiber.Fiber) {
	_, _ = d.Begin(f, true) // only a broken client refuses
}

func (d distributed) metaAt(p rtx.Ptr) int { return d.Place(p) }

func (d distributed) locked(w uint64) bool { return w != 0 }

func (d distributed) meet(f *fiber.Fiber, _ rtx.Ptr, w uint64, n int) error { return d.Meet(f, w, n) }

func (d distributed) blockOf(p rtx.Ptr, _ uint64) (class, at int) {
	if !d.Shape.Has(p) {
		return -1, 0
	}
	at, bytes := d.Shape.Place(p)
	return d.Class(bytes), at
}

// OpenDistributed makes a way to a table on a client of package dtx, and the table if there is none.
func OpenDistributed(f *fiber.Fiber, c *dtx.Client, cfg Config) (*Table, error) {
	t, err := open(c, cfg)
	if err != nil {
		return nil, err
	}
	t.over = distributed{c}
	return t.created(f)
}

// DescribeDistributed reads what records a table that is there has.
func DescribeDistributed(f *fiber.Fiber, c *dtx.Client, root int) (cfg Config, there bool, err error) {
	err = distributed{c}.transact(f, true, func(tx Tx) (err error) {
		cfg, there, err = Describe(tx, c.Root(root))
		return err
	})
	return cfg, there, err
}
