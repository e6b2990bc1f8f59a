package xenic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/recovery"
	"drtmd/proto/xenic/nics"
	"drtmd/store/nicindex"
	"drtmd/store/robinhood"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// This file has the members change (proto.Recoverer). NICs recover by themselves (package nics); hosts see to it that all
// threads of a member take part, and copy the records of replicas that are to be filled.

// chipView is how far the threads of a member have come in a change.
type chipView struct {
	epoch   uint64 // that the NIC has adopted
	arrived map[int]uint64
	filled  uint64      // records
	fills   map[int]int // by shard: copies of it that are under way, also when the replica is complete already
}

const (
	// lookEvery is how often a thread looks how far its NIC is.
	lookEvery = time.Microsecond
	// typeCopy asks the host of a primary for records of a table.
	typeCopy rpc.Type = 0x66
	// copyPatience is how long an answer is awaited.
	copyPatience = 400 * time.Microsecond
	copyBytes    = 4 << 10
)

var errCopy = errors.New("xenic: an answer with records makes no sense: run the same program on all nodes")

// Pause implements proto.Recoverer.
func (e *Engine) Pause(f *fiber.Fiber) error {
	n := e.chip.nic
	n.Pause()
	for !n.Quiet() {
		if err := f.Sleep(lookEvery); err != nil {
			return err
		}
	}
	return nil
}

// Recover implements proto.Recoverer. The last thread of the member has the NIC recover.
func (e *Engine) Recover(f *fiber.Fiber, epoch uint64, _ func(proto.NodeID) bool) error {
	c, v := e.chip, &e.chip.view
	if e.env.Port != nil {
		if err := e.env.Port.SetEpoch(rpc.Epoch(epoch)); err != nil {
			return err
		}
	}
	m := e.env.Placed.Map()
	tables := e.replicas()
	e.tables = tables[e.env.Node]
	e.host.Adopt(epoch, tables)
	v.arrived[e.env.Index] = epoch
	for v.epoch < epoch {
		all := true
		for i := range c.roles.workers {
			all = all && v.arrived[i] >= epoch
		}
		if all {
			if err := c.nic.Adopt(m); err != nil {
				return err
			}
			v.epoch = epoch
			break
		}
		if err := f.Sleep(lookEvery); err != nil {
			return err
		}
	}
	for {
		r, err := c.nic.Recovery()
		if _, serves := c.nic.Epoch(); err != nil || r.Epoch != epoch || r.Done || !serves && m.Lives(e.env.Node) {
			return err
		}
		if err := f.Sleep(lookEvery); err != nil {
			return err
		}
	}
}

// Recovery implements proto.Recoverer. What the NIC has done the first thread says.
func (e *Engine) Recovery() proto.Recovery {
	r, _ := e.chip.nic.Recovery()
	if e.env.Index > 0 {
		return proto.Recovery{Epoch: r.Epoch, Done: r.Done}
	}
	r.Filled = e.chip.view.filled
	return r
}

// replicas are the tables of each shard that the member holds.
func (e *Engine) replicas() (all [][]*robinhood.Table) {
	for _, s := range e.env.Shares {
		var tables []*robinhood.Table
		if s != nil {
			for _, t := range s.Tables {
				tables = append(tables, t.(*robinhood.Table))
			}
		}
		all = append(all, tables)
	}
	return all
}

// take gives the NIC the tables of a shard whose primary the member has become.
func (c *Chip) take(shard int) (d nics.Served, err error) {
	s := c.first.Shares[shard]
	d.Memory = s.MR
	sum := 0
	for i := range s.Tables {
		x, deleted := c.table(s.Tables[i].(*robinhood.Table))
		x.Budget = c.budgets[i]
		sum += x.Budget
		if x.Ordered = c.first.Specs[i].Ordered; x.Ordered {
			x.Budget -= nicindex.OrderBytes(x.Room)
		}
		d.Tables, d.Deleted = append(d.Tables, x), append(d.Deleted, deleted)
	}
	if _, err := c.board.Alloc(sum); err != nil {
		return d, fmt.Errorf("xenic: an index of shard %d, which this node takes over: %w", shard, err)
	}
	return d, nil
}

// decided takes down what was decided about a transaction of a node that is gone.
func (c *Chip) decided(tx uint64, d recovery.Decision, updates []nics.Update) {
	r := c.first.Recorder
	if r == nil {
		return
	}
	x := r.Begin(history.Ever)
	x.SetName(tx)
	o := history.Revoked
	if d == recovery.Commit {
		o = history.Recovered
		for _, u := range updates {
			t, k, v := history.Table(u.Table+1), history.Key(u.Key), history.Version(u.Version)
			if u.Version.Live() {
				x.Write(t, k, v, history.DigestOf(u.Bytes))
			} else {
				x.Delete(t, k, v)
			}
		}
	}
	r.End(x, history.Never, o)
}

// Fill implements proto.Recoverer: it copies the records of a shard from its primary, while that serves it. What is
// written meanwhile is logged here, too; of two versions the newer one stays.
func (e *Engine) Fill(f *fiber.Fiber, shard proto.ShardID) error {
	epoch := e.chip.view.epoch
	tables := e.replicas()[shard]
	if tables == nil {
		return fmt.Errorf("shard %d: there is no replica to fill", shard)
	}
	e.chip.view.fills[int(shard)]++
	defer func() { e.chip.view.fills[int(shard)]-- }()
	for t, table := range tables {
		req := binary.LittleEndian.AppendUint64(nil, epoch)
		req = binary.LittleEndian.AppendUint16(req, uint16(shard))
		req = append(req, byte(t), byte(e.env.Node))
		for from := uint32(0); ; {
			f.Step(stepFill)
			b, err := e.copies(f, shard, epoch, binary.LittleEndian.AppendUint32(req[:copyFrom:copyFrom], from))
			if err != nil {
				return err
			}
			next, incarnation, list, err := nics.Copied(b)
			if err != nil {
				return errCopy
			}
			for i := range list {
				list[i].Table = uint8(t)
			}
			if err := e.host.Fill(f, table, list, incarnation); err != nil {
				return err
			}
			e.chip.view.filled += uint64(len(list))
			if from = next; next == 0 {
				break
			}
		}
	}
	return nil
}

// copies asks the primary of a shard until it answers.
func (e *Engine) copies(f *fiber.Fiber, shard proto.ShardID, epoch uint64, req []byte) ([]byte, error) {
	resp := make([]byte, copyBytes)
	for {
		now, serves := e.chip.nic.Epoch()
		at := e.env.Placed.Map().Shards[shard].Primary
		if now != epoch || !serves || at == proto.NoNode {
			return nil, fmt.Errorf("shard %d is not filled: the members have changed", shard)
		}
		if s := e.env.Peers[at].Session; s != nil {
			n, err := s.Call(f, typeCopy, req, resp, f.Now()+copyPatience)
			if err == nil && n > 0 {
				return resp[:n], nil
			}
		}
		if err := f.Sleep(10 * lookEvery); err != nil {
			return nil, err
		}
	}
}

// copyFrom is where a request to copy has its last part.
const copyFrom = 12

// serveCopies answers typeCopy: epoch 8, shard 2, table 1, who asks 1, from 4. Nothing: later.
func (e *Engine) serveCopies(req, resp []byte) (int, error) {
	if len(req) != copyFrom+4 {
		return 0, errCopy
	}
	le := binary.LittleEndian
	epoch, shard, t, from := le.Uint64(req), int(le.Uint16(req[8:])), int(req[10]), int(le.Uint32(req[copyFrom:]))
	now, serves := e.chip.nic.Epoch()
	all := e.replicas()
	if shard >= len(all) || t >= len(e.env.Specs) {
		return 0, errCopy
	}
	if now != epoch || !serves || e.env.Placed.Map().Shards[shard].Primary != e.env.Node {
		return 0, nil
	}
	return e.host.Copy(resp[:min(len(resp), copyBytes)], int(req[11]), all[shard][t], from), nil
}

var _ proto.Recoverer = (*Engine)(nil)
