package rtx_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// A client refuses memory that was not laid out for it, in words, and has written nothing to it.
func TestWrongMemoryIsRefused(t *testing.T) {
	le := binary.LittleEndian
	larger := testShape
	larger.Objects *= 2
	size, err := larger.Bytes()
	must(t, err)
	ofLarger := make([]byte, size)
	must(t, larger.Format(ofLarger))
	for _, x := range []struct {
		name, text string
		damage     func(memory []byte)
	}{
		{"never initialised", "never initialised", func(b []byte) { clear(b[:4096]) }},
		{"foreign", "not memory of rTX", func(b []byte) { copy(b, "something") }},
		{"another version", "layout version 9, this side speaks 3", func(b []byte) { le.PutUint64(b[8:], 9) }},
		{"too small", "bytes, the memory has", func(b []byte) { copy(b, ofLarger[:4096]) }},
		{"another shape", "description of its layout is corrupt", func(b []byte) { le.PutUint64(b[24:], 7) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			var was []byte
			b := newSimBed(t, nil, func(memory []byte) error {
				if err := testShape.Format(memory); err != nil {
					return err
				}
				x.damage(memory)
				was = bytes.Clone(memory)
				return nil
			})
			b.drive(func(f *fiber.Fiber) error {
				_, err := b.attach(f, 0)
				if !errors.Is(err, rtx.ErrLayout) || !strings.Contains(err.Error(), x.text) {
					t.Errorf("%v", err)
				}
				return nil
			})
			if !bytes.Equal(was, b.server.Memory().Bytes()) {
				t.Error("the memory has changed")
			}
		})
	}
}

// A client whose log makes no sense is refused in words, and changes nothing; others go on.
func TestACorruptLogIsRefused(t *testing.T) {
	var was []byte
	b := newSimBed(t, nil, func(memory []byte) error {
		err := errors.Join(testShape.Format(memory), rtx.SpoilLog(memory, 1))
		was = bytes.Clone(memory)
		return err
	})
	b.drive(func(f *fiber.Fiber) error {
		_, err := b.attach(f, 1)
		if !errors.Is(err, rtx.ErrCorrupt) || !strings.Contains(err.Error(), "the log of owner 1 is in use and makes no sense") {
			t.Errorf("%v", err)
		}
		return nil
	})
	if !bytes.Equal(was, b.server.Memory().Bytes()) {
		t.Error("the memory has changed")
	}
	b.run(one)
}

func TestWrongShapesAreRefused(t *testing.T) {
	small := rtx.Class{Bytes: 64, Blocks: 32}
	for _, x := range []struct {
		text  string
		shape rtx.Shape
	}{
		{"0 owners", rtx.Shape{Slots: 2, Classes: []rtx.Class{small}}},
		{"0 classes", rtx.Shape{Owners: 1, Slots: 2}},
		{"of 2..32 with 1 classes and 32768 owners", rtx.Shape{Owners: rtx.MaxOwners, Slots: 33, Classes: []rtx.Class{small}}},
		{"1025 slots", rtx.Shape{Owners: 1, Slots: 1025, Classes: []rtx.Class{small}}},
		{"1 slots", rtx.Shape{Owners: 1, Slots: 1, Classes: []rtx.Class{small}}},
		{"blocks of 65 bytes", rtx.Shape{Owners: 1, Slots: 2, Classes: []rtx.Class{{Bytes: 65, Blocks: 32}}}},
		{"7 blocks", rtx.Shape{Owners: 1, Slots: 2, Classes: []rtx.Class{{Bytes: 64, Blocks: 7}}}},
	} {
		if _, err := x.shape.Bytes(); !errors.Is(err, rtx.ErrShape) || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%+v: %v", x.shape, err)
		}
	}
	if err := testShape.Format(make([]byte, 4096)); !errors.Is(err, rtx.ErrShape) ||
		!strings.Contains(err.Error(), "the memory has 4096") {
		t.Errorf("memory that is too small: %v", err)
	}
	n, err := testShape.Bytes()
	must(t, err)
	memory := make([]byte, n)
	must(t, testShape.Format(memory))
	must(t, testShape.Format(memory)) // as it is
	other := testShape
	other.Roots++
	if err := other.Format(append(memory, make([]byte, 4096)...)); !errors.Is(err, rtx.ErrLayout) ||
		!strings.Contains(err.Error(), "another shape") {
		t.Errorf("memory of another shape: %v", err)
	}
}

// What a program does wrong is refused, and its transaction leaves nothing behind.
func TestWrongUseIsRefused(t *testing.T) {
	b := newSimBed(t, nil, testShape.Format)
	own := errors.New("own")
	b.run(func(c *rtx.Client, f *fiber.Fiber) error {
		if err := one(c, f); err != nil {
			return err
		}
		for _, x := range []struct {
			name string
			want error
			body func(tx *rtx.Tx) error
		}{
			{"no object", rtx.ErrUsage, func(tx *rtx.Tx) error { _, err := tx.Read(1 << 40); return err }},
			{"class", rtx.ErrUsage, func(tx *rtx.Tx) error { _, err := tx.Write(c.Root(0), 1); return err }},
			{"no class", rtx.ErrUsage, func(tx *rtx.Tx) error { _, _, err := tx.Alloc(2); return err }},
			{"free a root", rtx.ErrUsage, func(tx *rtx.Tx) error { return tx.Free(c.Root(0)) }},
			{"large", rtx.ErrTooLarge, func(tx *rtx.Tx) error {
				for range 8 {
					if _, _, err := tx.Alloc(1); err != nil {
						return err
					}
				}
				return nil
			}},
			{"own error", own, func(tx *rtx.Tx) error {
				v, err := tx.Update(c.Root(0))
				if err == nil {
					v[0] = 99
					err = own
				}
				return err
			}},
		} {
			if err := c.Run(f, x.body); !errors.Is(err, x.want) {
				t.Errorf("%s: %v", x.name, err)
			}
		}
		return c.Run(f, func(tx *rtx.Tx) error {
			v, err := tx.Read(c.Root(0))
			if err == nil && v[0] != 1 {
				t.Errorf("root 0 has %d", v[0])
			}
			return err
		})
	})
	must(t, rtx.Audit(b.server.Memory().Bytes(), nil))
}

// Objects are allocated until there is none left, and given back; nothing leaks.
func TestMemoryIsUsedAgain(t *testing.T) {
	b := newSimBed(t, nil, testShape.Format)
	var held []rtx.Ptr
	b.run(func(c *rtx.Client, f *fiber.Fiber) error {
		alloc := func() (p rtx.Ptr, err error) {
			err = c.Run(f, func(tx *rtx.Tx) (err error) {
				p, _, err = tx.Alloc(0)
				return err
			})
			return p, err
		}
		for round := range 3 {
			for {
				p, err := alloc()
				if errors.Is(err, rtx.ErrFull) {
					break
				}
				if err != nil {
					return err
				}
				held = append(held, p)
			}
			// The lists of the owner and of the pool, and the blocks of slots, take some of the 128 blocks.
			if len(held) < 110 {
				return fmt.Errorf("round %d: full with %d objects", round, len(held))
			}
			if err := rtx.Audit(b.server.Memory().Bytes(), held); err != nil {
				return err
			}
			for _, p := range held {
				if err := c.Run(f, func(tx *rtx.Tx) error { return tx.Free(p) }); err != nil {
					return err
				}
			}
			held = held[:0]
		}
		return nil
	})
	must(t, rtx.Audit(b.server.Memory().Bytes(), nil))
}
