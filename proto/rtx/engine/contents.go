package engine

import (
	"errors"
	"fmt"
	"slices"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/sherman"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// idle is the first client, which walks and fillers use outside transactions. It refuses while any runs: a client
// runs one at a time.
func (e *Engine) idle() (*client, error) {
	if n := len(e.clients) - len(e.free); n > 0 {
		return nil, fmt.Errorf("%w: %d transactions are under way", rtx.ErrUsage, n)
	}
	return e.clients[0], nil
}

// Each visits all records of a table, when nobody changes any. value is valid during the call.
func (e *Engine) Each(f *fiber.Fiber, t proto.TableID, visit func(k proto.Key, v layout.Version, value []byte)) error {
	c, err := e.idle()
	if err != nil {
		return err
	}
	n := e.cfg.Specs[t-1].ValueBytes
	type entry struct {
		key uint64
		v   layout.Version
	}
	var found []entry
	var values []byte
	for at, more := uint64(0), true; more; {
		var next uint64
		err := c.run(f, true, func(tx sherman.Tx) (err error) {
			found, values = found[:0], values[:0]
			next, more, err = c.tables[t-1].Walk(tx, at, func(key uint64, v layout.Version, value []byte) {
				found, values = append(found, entry{key, v}), append(values, value...)
			})
			return err
		})
		if err != nil {
			return err
		}
		for i, x := range found {
			visit(proto.Key(x.key), x.v, values[n*i:n*i+n])
		}
		at = next
	}
	return nil
}

// fillBatch is how many records Fill puts into one transaction: neighbours share nodes of a tree.
const fillBatch = 16

// Filler makes a table hold records, many to a transaction.
type Filler struct {
	e      *Engine
	f      *fiber.Fiber
	t      proto.TableID
	keys   []proto.Key
	values []byte
	found  []layout.Version
	gone   []bool
	told   func(k proto.Key, v layout.Version, value []byte)
}

// Fill gives a Filler of a table. told is told of each record that is there then, with its version.
func (e *Engine) Fill(f *fiber.Fiber, t proto.TableID, told func(k proto.Key, v layout.Version, value []byte)) *Filler {
	return &Filler{e: e, f: f, t: t, told: told}
}

// Put adds a record, or changes it; nil removes it. It takes effect with later ones, or by Flush.
func (x *Filler) Put(k proto.Key, value []byte) error {
	x.keys, x.gone = append(x.keys, k), append(x.gone, value == nil)
	if value == nil {
		value = make([]byte, x.e.cfg.Specs[x.t-1].ValueBytes)
	}
	x.values = append(x.values, value...)
	if len(x.keys) < fillBatch {
		return nil
	}
	return x.Flush()
}

// Flush has all take effect.
func (x *Filler) Flush() error {
	n := x.e.cfg.Specs[x.t-1].ValueBytes
	for from := 0; from < len(x.keys); {
		to := len(x.keys)
		err := x.batch(from, to, n)
		for errors.Is(err, rtx.ErrTooLarge) && to > from+1 {
			to = from + (to-from)/2
			err = x.batch(from, to, n)
		}
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			if !x.gone[i] {
				x.told(x.keys[i], x.found[i], x.values[n*i:n*i+n])
			}
		}
		from = to
	}
	x.keys, x.values, x.gone = x.keys[:0], x.values[:0], x.gone[:0]
	return nil
}

// batch puts some records in one transaction.
func (x *Filler) batch(from, to, n int) error {
	c, err := x.e.idle()
	if err != nil {
		return err
	}
	table := c.tables[x.t-1]
	x.found = slices.Grow(x.found[:0], len(x.keys))[:len(x.keys)]
	return c.run(x.f, false, func(tx sherman.Tx) error {
		for i := from; i < to; i++ {
			key, value := uint64(x.keys[i]), x.values[n*i:n*i+n]
			if x.gone[i] {
				if _, _, err := table.Delete(tx, key); err != nil {
					return err
				}
				continue
			}
			v, done, err := table.Put(tx, key, value)
			if err == nil && !done {
				v, done, err = table.Insert(tx, key, value)
			}
			if err != nil {
				return err
			}
			if !done {
				return proto.Aborting(proto.ReasonValidation)
			}
			x.found[i] = v
		}
		return nil
	})
}
