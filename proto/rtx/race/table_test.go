package race_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"drtmd/proto/rtx"
	"drtmd/proto/rtx/race"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shape has records of a size, and subtables of another one.
func shape(records, tables int) rtx.Shape {
	return rtx.Shape{Owners: 1, Slots: 32, Roots: 2, Objects: 1 << 10,
		Classes: []rtx.Class{{Bytes: records, Blocks: 4096}, {Bytes: tables, Blocks: 1024}}}
}

func key(n uint64) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	return b[:]
}

// The table is a map, through rehashes that need pages of a second level, with keys and values of any size.
func TestATableIsAMap(t *testing.T) {
	for _, x := range []struct {
		versions     bool
		records      int
		keyed, value int // longest
	}{{false, 64, 8, 16}, {true, 256, 120, 80}} {
		var c race.Contents
		memory := rtxtest.Run(t, shape(x.records, 576), nil, func(client *rtx.Client, f *fiber.Fiber) error {
			table, err := race.Open(f, client, race.Config{Records: 0, Tables: 1, Versions: x.versions})
			if err != nil {
				return err
			}
			model, r := map[string]string{}, rand.New(rand.NewPCG(3, 4))
			for i := range 4000 {
				k := key(r.Uint64N(1200))
				if x.keyed > 8 {
					k = bytes.Repeat(k, x.keyed/8)[:8+int(k[0])%(x.keyed-8)]
				}
				v := bytes.Repeat([]byte{byte(r.Uint32())}, int(r.IntN(x.value+1)))
				if err := step(f, table, model, r.IntN(4), k, v, i > 2500); err != nil {
					return fmt.Errorf("step %d: %w", i, err)
				}
			}
			if c, err = table.Check(f); err != nil {
				return err
			}
			if c.Keys != len(model) {
				t.Errorf("%d keys, the model has %d", c.Keys, len(model))
			}
			return walked(f, table, model)
		})
		must(t, rtx.AuditRecords(memory, c.Objects, c.Records))
		t.Logf("%+v: %d objects, %d records, %d keys", x, len(c.Objects), len(c.Records), c.Keys)
	}
}

// walked compares a walk with the model.
func walked(f *fiber.Fiber, table *race.Table, model map[string]string) error {
	seen := 0
	for at, more := uint64(0), true; more; {
		var wrong error
		var err error
		at, more, err = table.Walk(f, at, func(key, value []byte, _ uint64) {
			seen++
			if want, ok := model[string(key)]; !ok || want != string(value) {
				wrong = fmt.Errorf("key %x has %x, the model %x, %v", key, value, want, ok)
			}
		})
		if err = errors.Join(err, wrong); err != nil {
			return err
		}
	}
	if seen != len(model) {
		return fmt.Errorf("a walk finds %d keys, the model has %d", seen, len(model))
	}
	return nil
}

// step is an operation on the table and on its model.
func step(f *fiber.Fiber, table *race.Table, model map[string]string, kind int, key, value []byte, deletes bool) error {
	want, there := model[string(key)]
	wrong := func(what string, got ...any) error {
		return fmt.Errorf("%s of %x gives %v, the model has %x, %v", what, key, fmt.Sprint(got...), want, there)
	}
	p, err := table.Find(f, key)
	if err != nil || p.Found != there || there && string(p.Value) != want {
		return wrong("Find", p, err)
	}
	switch {
	case deletes && kind < 2:
		v, ok, err := table.Delete(f, &p, key)
		if err != nil || ok != there || ok && v != 0 && v <= p.Version {
			return wrong("Delete", v, ok, err)
		}
		delete(model, string(key))
	case kind == 3:
		v, ok, err := table.Update(f, nil, key, value)
		if err != nil || ok != there || ok && v != 0 && v <= p.Version {
			return wrong("Update", v, ok, err)
		}
		if ok {
			model[string(key)] = string(value)
		}
	default:
		v, ok, err := table.Insert(f, nil, key, value)
		if err != nil || ok == there || ok && v != 0 && v <= p.Version {
			return wrong("Insert", v, ok, err)
		}
		if ok {
			model[string(key)] = string(value)
		}
	}
	return nil
}

// Section 5: a look-up READs two combined buckets of 128 bytes in one round trip, with the metadata of 16 bytes that
// it checks, and then the record; an update WRITEs a record and changes one slot by CAS; an insertion confirms its
// slot by another one. Blocks that were replaced take a CAS and a WRITE of 8 bytes besides.
func TestOperationsOfRACE(t *testing.T) {
	now := sim.Traffic{Node: "n0"}
	rtxtest.Run(t, shape(64, 1024), now.Note, func(c *rtx.Client, f *fiber.Fiber) error {
		table, err := race.Open(f, c, race.Config{Records: 0, Tables: 1})
		if err != nil {
			return err
		}
		for i := range uint64(40) {
			if _, _, err := table.Insert(f, nil, key(i), key(i)); err != nil {
				return err
			}
		}
		for _, x := range []struct {
			name string
			want sim.Traffic
			op   func() error
		}{
			{"a look-up", traffic(4, 2*128+16+64, 0, 0, 0), func() error { _, err := table.Find(f, key(9)); return err }},
			{"an update", traffic(5, 2*128+16+64+16, 2, 64+8, 2),
				func() error { _, _, err := table.Update(f, nil, key(9), key(8)); return err }},
			{"an insertion", traffic(7, 2*(2*128+16)+16, 2, 64+8, 3),
				func() error { _, _, err := table.Insert(f, nil, key(77), key(8)); return err }},
		} {
			now = sim.Traffic{Node: "n0"}
			start := f.Now()
			if err := x.op(); err != nil {
				return err
			}
			if now != x.want {
				t.Errorf("%s: %+v, not %+v", x.name, now, x.want)
			}
			t.Logf("%s takes %s", x.name, f.Now()-start)
		}
		return nil
	})
}

// traffic is so many operations, with so many bytes.
func traffic(reads, read, writes, written, cas int) sim.Traffic {
	return sim.Traffic{Node: "n0", Reads: reads, Writes: writes, Bytes: sim.TrafficBytes{Read: read, Write: written, CAS: 8 * cas}}
}

func TestRecordsOverTheBoundAreRefused(t *testing.T) {
	rtxtest.Run(t, shape(64, 1024), nil, func(c *rtx.Client, f *fiber.Fiber) error {
		table, err := race.Open(f, c, race.Config{Records: 0, Tables: 1, Versions: true})
		if err != nil {
			return err
		}
		if _, _, err := table.Insert(f, nil, key(1), make([]byte, 9)); !errors.Is(err, race.ErrRecord) {
			t.Errorf("a value of 9 bytes: %v", err)
		}
		if _, _, err := table.Insert(f, nil, make([]byte, 256), nil); !errors.Is(err, race.ErrRecord) {
			t.Errorf("a key of 256 bytes: %v", err)
		}
		if _, err := race.Open(f, c, race.Config{Records: 0, Tables: 1}); !errors.Is(err, race.ErrFormat) {
			t.Errorf("a table with versions, opened without: %v", err)
		}
		return nil
	})
}
