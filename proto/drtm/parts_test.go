package drtm_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// field is a part of a record of the table large, whose entries have four lines.
func field(a proto.Access, offset, bytes uint16, write bool) proto.Access {
	a.Fields[0] = proto.Field{Offset: offset, Bytes: bytes, Write: write}
	return a
}

// readAt gives a word of a record of the table large.
func readAt(tx proto.Txn, k proto.Key, offset int) (uint64, error) {
	b, row := make([]byte, 8), make([]byte, sizes[large])
	if err := proto.ReadAt(tx, large, k, offset, b, row); err != nil {
		return 0, err
	}
	v, _ := number(b)
	return v, nil
}

// TestFieldsAreLoadedInPart and are right all the same, whichever way and whatever the program accesses beside
// them: of records that were written, read or deleted, by transactions that are recorded or not.
func TestFieldsAreLoadedInPart(t *testing.T) {
	const first, last = 0, 192 // the line of the header, and the last one
	k := keyOn(0, 3)
	cases := []struct {
		name string
		d    *proto.Decl
		run  func(tx proto.Txn) error
		want map[int]uint64 // words afterwards, if not initial
		gone bool
	}{
		{name: "the fields", d: declare(field(writing(large, k), last, 8, true)), run: func(tx proto.Txn) error {
			return add(tx, k, last, last)
		}, want: map[int]uint64{last: initial + 1}},
		{name: "another one", d: declare(field(writing(large, k), first, 8, true)), run: func(tx proto.Txn) error {
			return add(tx, k, last, first)
		}, want: map[int]uint64{first: initial + 1}},
		{name: "written beside", d: declare(field(writing(large, k), first, 8, true)), run: func(tx proto.Txn) error {
			return errors.Join(add(tx, k, first, 96), add(tx, k, 96, first))
		}, want: map[int]uint64{96: initial + 1, first: initial + 2}},
		{name: "all of it", d: declare(field(writing(large, k), 64, 8, true)), run: func(tx proto.Txn) error {
			b := value(large, 0)
			if err := errors.Join(add(tx, k, 64, 64), tx.Read(large, k, b)); err != nil {
				return err
			}
			if err := word(b, 64, initial+1); err != nil {
				return err
			}
			return errors.Join(word(b, last, initial), tx.Write(large, k, value(large, initial+5)))
		}, want: map[int]uint64{first: initial + 5, 64: initial + 5, 96: initial + 5, last: initial + 5}},
		{name: "deleted", d: declare(field(deleting(large, k), last, 8, true)), run: func(tx proto.Txn) error {
			return tx.Delete(large, k)
		}, gone: true},
		{name: "read only", d: declare(field(reading(large, k), 64, 8, false)), run: func(tx proto.Txn) error {
			for _, at := range []int{64, first, last} {
				if v, err := readAt(tx, k, at); err != nil || v != initial {
					return fmt.Errorf("the word at %d is %d, %w", at, v, err)
				}
			}
			return tx.Read(large, k, value(large, 0))
		}},
	}
	for _, recorded := range []bool{true, false} {
		for _, x := range cases {
			for _, n := range []int{0, 2, drtm.DefaultAttempts} {
				t.Run(fmt.Sprintf("%s, attempt %d, recorded %t", x.name, n, recorded), func(t *testing.T) {
					c := start(t, onSim, settings{node: func(cfg *node.Config) {
						if !recorded {
							cfg.Record = nil
						}
					}})
					c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
						if err := attempt(f, e, x.d, n, x.run); err != nil {
							return err
						}
						return do(f, e, declare(reading(large, k)), func(tx proto.Txn) error {
							return afterwards(tx, k, x.want, x.gone)
						})
					})
					if recorded {
						c.verify()
					}
				})
			}
		}
	}
}

// add stores the word at one offset of a record, plus one, at another.
func add(tx proto.Txn, k proto.Key, from, to int) error {
	v, err := readAt(tx, k, from)
	if err != nil {
		return err
	}
	b := value(small, v+1)
	return proto.WriteAt(tx, large, k, to, b, value(large, 0))
}

// word checks a word of a value.
func word(b []byte, at int, want uint64) error {
	if v, _ := number(b[at : at+8]); v != want {
		return fmt.Errorf("the word at %d is %d, want %d", at, v, want)
	}
	return nil
}

// afterwards checks a record of the table large.
func afterwards(tx proto.Txn, k proto.Key, want map[int]uint64, gone bool) error {
	b := value(large, 0)
	err := tx.Read(large, k, b)
	if gone {
		if !errors.Is(err, proto.ErrNotFound) {
			return fmt.Errorf("the record is there: %w", err)
		}
		return nil
	}
	for at := 0; at < len(b) && err == nil; at += 8 {
		v, changed := want[at]
		if all := len(want) == 4; !changed && all {
			v = want[0]
		} else if !changed {
			v = initial
		}
		err = word(b, at, v)
	}
	return err
}

// TestALogHasTheLinesBetweenTwoFields of a record that was loaded in part, though the program has not seen them.
func TestALogHasTheLinesBetweenTwoFields(t *testing.T) {
	const first, last = 0, 192
	k := keyOn(0, 3)
	d := declare(field(writing(large, k), first, 8, true))
	d.Accesses[0].Fields[1] = proto.Field{Offset: last, Bytes: 8, Write: true}
	want := value(large, initial)
	for _, at := range []int{first, last} {
		copy(want[at:], value(small, initial+1))
	}
	c := unrecorded(t, "true")
	c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
		loaded := 0
		err := attempt(f, e, d, 0, func(tx proto.Txn) error {
			err := errors.Join(add(tx, k, first, first), add(tx, k, last, last))
			loaded = drtm.LoadedLines(tx)
			return err
		})
		if err != nil {
			return err
		}
		if loaded != 2 {
			return fmt.Errorf("the program has had %d lines loaded, want 2", loaded)
		}
		if n := bytes.Count(e.Env.Memory.Bytes, want[:last+8]); n != 2 { // the record and its log
			return fmt.Errorf("memory has the record's new value %d times, want 2", n)
		}
		return nil
	})
}

// TestAFieldOfAnotherMomentIsRefused: the line of a read-only transaction that comes later is of the same version.
func TestAFieldOfAnotherMomentIsRefused(t *testing.T) {
	k := keyOn(0, 3)
	c := start(t, onSim, settings{node: func(cfg *node.Config) { cfg.Record = nil }})
	c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
		d := declare(field(reading(large, k), 0, 8, false))
		err := attempt(f, e, d, 0, func(tx proto.Txn) error {
			if _, err := readAt(tx, k, 0); err != nil {
				return err
			}
			if err := do(f, e, declare(writing(large, k)), func(tx proto.Txn) error {
				return tx.Write(large, k, value(large, 7))
			}); err != nil {
				return err
			}
			_, err := readAt(tx, k, 192)
			return err
		})
		if proto.AbortReason(err) != proto.ReasonValidation {
			return fmt.Errorf("ended with %v, want a failed validation", err)
		}
		return nil
	})
}
