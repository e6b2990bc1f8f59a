package hades

import (
	"errors"
	"fmt"
	"slices"

	"drtmd/htm/bloom"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// copying is the copy of a part of a table that the node has asked for.
type copying struct {
	shard  proto.ShardID
	number uint32 // of the question
	done   bool   // it is answered
	next   int    // where the rest begins; 0: there is none
	lives  uint32 // from which the table goes on
	writes []recovery.Write
}

// copiedAtOnce are the records of an answer, and copyPs is the CPU time for one. Assumed.
const (
	copiedAtOnce = 32
	copyPs       = 100_000
)

var errFill = errors.New("the members change, and the replica is filled anew")

// Fill implements proto.Recoverer: it copies a shard from its primary, which serves it. What is written meanwhile is kept
// here, too; of two versions the newer one stays.
func (e *Engine) Fill(f *fiber.Fiber, shard proto.ShardID) error {
	v := e.chip.view
	if v == nil {
		return nil
	}
	defer e.run()()
	from, s := v.placed().Shards[shard].Primary, v.share(shard)
	if s == nil || from == proto.NoNode {
		return fmt.Errorf("shard %d: there is no replica to fill, or nobody to fill it from", shard)
	}
	x := &copying{shard: shard}
	v.copies = append(v.copies, x)
	defer func() { v.copies = slices.DeleteFunc(v.copies, func(o *copying) bool { return o == x }) }()
	turn := v.turn
	for i, t := range s.Tables {
		for at, first := 0, true; first || at > 0; first = false {
			f.Step(stepFill)
			if v.turn != turn {
				return errFill
			}
			v.asks++
			x.number, x.done = v.asks, false
			v.send(from, mailCopy, sayCopy(x.number, shard, proto.TableID(i+1), at))
			err := e.awaitView(f, turn, func() bool { return x.done })
			if err == nil && v.turn != turn {
				err = errFill
			}
			if err != nil {
				return err
			}
			at = x.next
			for j := range x.writes {
				w := &x.writes[j]
				if w.Shard = shard; !v.apply(s, w) {
					return fmt.Errorf("shard %d: the replica has no room for a record of its primary", shard)
				}
				v.count.Filled++
				f.Charge(copyPs)
			}
		}
		v.goOn(t, x.lives)
	}
	return nil
}

// goOn has a table continue the lives of keys of another replica.
func (v *view) goOn(t protocol.PointIndex, n uint32) {
	c := protocol.Copied(t)
	for c.Incarnations() < n {
		v.c.inRegion(func() bool { return c.RaiseIn(v.c.region, n) })
	}
}

func sayCopy(number uint32, shard proto.ShardID, t proto.TableID, at int) []byte {
	b := le.AppendUint32(nil, number)
	b = le.AppendUint16(le.AppendUint16(b, uint16(shard)), uint16(t))
	return le.AppendUint64(b, uint64(at))
}

// persists reports whether a transaction of this node has stored a record that it may not commit yet.
func (c *Chip) persists(shard proto.ShardID, off int) bool {
	return c.Persists(c.banks[shard].base + bloom.Line(off/layout.LineBytes))
}

// sayCopies answers with records of a table, without those that are not committed.
func (v *view) sayCopies(to proto.NodeID, says []byte) {
	shard, table, from := proto.ShardID(le.Uint16(says[4:])), proto.TableID(le.Uint16(says[6:])), int(le.Uint64(says[8:]))
	t := v.c.first.Shares[shard].Tables[table-1]
	record, next, count := t.Record(), 0, 0
	var b []byte
	protocol.Copied(t).EachFrom(from, func(i, place int) bool {
		if count == copiedAtOnce {
			next = i
			return false
		}
		m, off := t.At(place)
		if v.c.persists(shard, off) && !v.c.lacks(fillUnkept) {
			return true // it gets a record of that, or this node dies and the replica is filled anew
		}
		image := m.Bytes[off : off+record.Bytes]
		h := layout.HeadOf(image)
		w := recovery.Write{Shard: shard, Table: table, Key: proto.Key(h.Key), Version: h.Version}
		switch {
		case h.Version.Live():
			w.Value = record.Value(image, make([]byte, record.Room))
		case h.Version.Trace() == 0:
			return true
		}
		b = recovery.AppendWrite(b, &w)
		count++
		return true
	})
	answer := append([]byte(nil), says[:4]...)
	answer = le.AppendUint64(answer, uint64(next))
	answer = le.AppendUint32(answer, protocol.Copied(t).Incarnations())
	v.send(to, mailCopied, append(answer, b...))
}

// takeCopies takes them.
func (v *view) takeCopies(says []byte) {
	i := slices.IndexFunc(v.copies, func(x *copying) bool { return x.number == le.Uint32(says) })
	if i < 0 {
		return
	}
	x := v.copies[i]
	x.done, x.next, x.lives = true, int(le.Uint64(says[4:])), le.Uint32(says[12:])
	x.writes = x.writes[:0]
	rest := append([]byte(nil), says[16:]...)
	for len(rest) > 0 {
		var w recovery.Write
		var ok bool
		if rest, ok = recovery.TakeWrite(rest, v.c.first.Specs, &w); !ok {
			return
		}
		x.writes = append(x.writes, w)
	}
	v.wake()
}
