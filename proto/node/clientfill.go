package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// held are the records of one client's share in the end.
type held struct {
	tables []map[proto.Key]entry // table t is tables[t-1]. Looked up only
	order  [][]proto.Key         // its keys, as they were found
}

// entry is a record in the end.
type entry struct {
	version layout.Version
	value   []byte
}

// fill has the tables hold what the workload loads, of the clients in this process, and nothing else of theirs:
// what earlier runs have left is changed back.
func (c *Cluster) fill(ctx context.Context) error {
	k := c.clients
	if err := c.clean(ctx); err != nil {
		return fmt.Errorf("clear the tables: %w", err)
	}
	for _, m := range c.Members {
		k.loaded = append(k.loaded, history.NewSnapshot(history.NodeID(m.ID), history.Initial))
	}
	tasks := newTasks(c.host, len(c.Members))
	for i, m := range c.Members {
		w := m.Workers[0]
		w.Worker.Submit("load", func(f *fiber.Fiber) error {
			return c.load(f, w.Engine.(*engine.Engine), m.ID, k.loaded[i])
		}, tasks.ended)
	}
	if err := tasks.Wait(ctx); err != nil {
		return fmt.Errorf("load the tables: %w", err)
	}
	return nil
}

// clean removes the records of clients in this process that the workload does not load.
func (c *Cluster) clean(ctx context.Context) error {
	first := c.Members[0].Workers[0]
	tasks := newTasks(c.host, 1)
	first.Worker.Submit("clean", func(f *fiber.Fiber) error {
		e := first.Engine.(*engine.Engine)
		left, err := c.left(f, e)
		if err != nil {
			return err
		}
		for i, keys := range left {
			x := e.Fill(f, proto.TableID(i+1), func(proto.Key, layout.Version, []byte) {})
			for _, key := range keys {
				if err := x.Put(key, nil); err != nil {
					return err
				}
			}
			if err := x.Flush(); err != nil {
				return err
			}
		}
		return nil
	}, tasks.ended)
	return tasks.Wait(ctx)
}

// left are the keys that clean removes, by table.
func (c *Cluster) left(f *fiber.Fiber, e *engine.Engine) ([][]proto.Key, error) {
	specs := c.Config.Workload.Tables()
	left, all := make([][]proto.Key, len(specs)), 0
	for i, s := range specs {
		err := e.Each(f, s.ID, func(key proto.Key, _ layout.Version, _ []byte) {
			if c.here(s.ID, key) != nil {
				left[i], all = append(left[i], key), all+1
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if all == 0 {
		return nil, nil // a new memory node
	}
	want := make([]map[proto.Key]bool, len(specs))
	for i := range want {
		want[i] = map[proto.Key]bool{}
	}
	for _, m := range c.Members {
		err := c.Config.Workload.Load(m.ID, func(t proto.TableID, key proto.Key, _ []byte) error {
			want[t-1][key] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range left {
		left[i] = slices.DeleteFunc(left[i], func(key proto.Key) bool { return want[i][key] })
	}
	return left, nil
}

// here is the client in this process whose share has a record; nil: it is another one's.
func (c *Cluster) here(t proto.TableID, key proto.Key) *Member {
	n := c.Config.Workload.Placement().Locate(t, key).Primary
	for _, m := range c.Members {
		if m.ID == n {
			return m
		}
	}
	return nil
}

// load puts a client's records into the tables.
func (c *Cluster) load(f *fiber.Fiber, e *engine.Engine, n proto.NodeID, s *history.Snapshot) error {
	var fillers []*engine.Filler
	for _, spec := range c.Config.Workload.Tables() {
		fillers = append(fillers, e.Fill(f, spec.ID, func(key proto.Key, v layout.Version, value []byte) {
			if c.Config.Record != nil {
				s.Put(history.Content{Table: history.Table(spec.ID), Key: history.Key(key), State: history.Present,
					Version: history.Version(v), Digest: history.DigestOf(value)})
			}
		}))
	}
	err := c.Config.Workload.Load(n, func(t proto.TableID, key proto.Key, value []byte) error {
		return fillers[t-1].Put(key, value)
	})
	for _, x := range fillers {
		if err == nil {
			err = x.Flush()
		}
	}
	return err
}

// readTimeout bounds the reading of the records in the end.
const readTimeout = time.Minute

// rest reads the records in the end, once, while the workers still run.
func (c *Cluster) rest() {
	k := c.clients
	if !k.ready {
		return
	}
	k.ready = false
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	specs := c.Config.Workload.Tables()
	byMember := map[*Member]*held{}
	for _, m := range c.Members {
		h := &held{order: make([][]proto.Key, len(specs))}
		for range specs {
			h.tables = append(h.tables, map[proto.Key]entry{})
		}
		k.held, byMember[m] = append(k.held, h), h
	}
	tasks := newTasks(c.host, 1)
	w := c.Members[0].Workers[0]
	w.Worker.Submit("read", func(f *fiber.Fiber) error {
		for _, s := range specs {
			err := w.Engine.(*engine.Engine).Each(f, s.ID, func(key proto.Key, v layout.Version, value []byte) {
				h := byMember[c.here(s.ID, key)]
				if h != nil {
					h.tables[s.ID-1][key] = entry{v, append([]byte(nil), value...)}
					h.order[s.ID-1] = append(h.order[s.ID-1], key)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, tasks.ended)
	if err := tasks.Wait(ctx); err != nil {
		k.failed = fmt.Errorf("the records cannot be read in the end: %w", err)
	}
}

// Read implements workload.Contents.
func (h *held) Read(t proto.TableID, key proto.Key, dst []byte) error {
	e, ok := h.tables[t-1][key]
	if !ok {
		return proto.ErrNotFound
	}
	copy(dst, e.value)
	return nil
}

// Each implements workload.Contents.
func (h *held) Each(t proto.TableID, visit func(key proto.Key, row []byte)) {
	for _, key := range h.order[t-1] {
		visit(key, h.tables[t-1][key].value)
	}
}

// Scan implements workload.Contents: the records of an ordered index were found in order.
func (h *held) Scan(t proto.TableID, visit func(key proto.Key, row []byte) bool) error {
	for _, key := range h.order[t-1] {
		if !visit(key, h.tables[t-1][key].value) {
			return nil
		}
	}
	return nil
}

// verifyClients is Cluster.Verify.
func (c *Cluster) verifyClients() (t workload.Tally) {
	k := c.clients
	if k.failed != nil {
		return workload.Tally{Wrong: k.failed.Error()}
	}
	for i, m := range c.Members {
		t = t.Plus(workload.Verify(c.Config.Workload, m.ID, k.held[i]))
	}
	return t
}

// snapshots are the first and last contents, for histories.
func (c *Cluster) snapshots(run *history.Run) error {
	k := c.clients
	if k.failed != nil {
		return k.failed
	}
	run.Initial = append(run.Initial, k.loaded...)
	for i, m := range c.Members {
		s := history.NewSnapshot(history.NodeID(m.ID), history.Final)
		for j, keys := range k.held[i].order {
			for _, key := range keys {
				e := k.held[i].tables[j][key]
				s.Put(history.Content{Table: history.Table(j + 1), Key: history.Key(key), State: history.Present,
					Version: history.Version(e.version), Digest: history.DigestOf(e.value)})
			}
		}
		run.Final = append(run.Final, s)
	}
	return nil
}
