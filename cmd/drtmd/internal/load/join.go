package load

import (
	"context"
	"errors"

	"drtmd/proto/history"
)

// joinHistories makes one history of those that the processes have saved, by recording their
// transactions again.
func joinHistories(ctx context.Context, names history.Names, files []string) (*history.History,
	error) {
	var segments []*history.Segment
	fail := func(err error) (*history.History, error) {
		for _, s := range segments {
			err = errors.Join(err, s.Discard())
		}
		return nil, err
	}
	for _, f := range files {
		more, err := segmentsOf(ctx, f)
		segments = append(segments, more...)
		if err != nil {
			return fail(err)
		}
	}
	h, err := history.New(names, segments...)
	if err != nil {
		return fail(err)
	}
	return h, nil
}

// segmentsOf records a saved history again, a segment for each worker.
func segmentsOf(ctx context.Context, file string) (segments []*history.Segment, err error) {
	h, err := history.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	nodes := map[history.NodeID]history.Clock{}
	for _, n := range h.Nodes() {
		nodes[n.ID] = n.Clock
	}
	var recorder *history.Recorder
	var worker history.WorkerID
	closeRecorder := func() error {
		if recorder == nil {
			return nil
		}
		s, err := recorder.Close()
		if err == nil {
			segments = append(segments, s)
		}
		recorder = nil
		return err
	}
	err = h.Each(func(r *history.Record) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if recorder == nil || r.ID.Worker != worker {
			if err := closeRecorder(); err != nil {
				return err
			}
			worker = r.ID.Worker
			recorder = history.NewRecorder(history.Options{Worker: worker, Node: r.Node,
				Clock: nodes[r.Node]})
		}
		replay(recorder, r)
		return recorder.Err()
	})
	return segments, errors.Join(err, closeRecorder())
}

// replay records a transaction again.
func replay(recorder *history.Recorder, r *history.Record) {
	t := recorder.Begin(r.StartNs)
	t.SetKind(r.Kind)
	for i := range r.Ops {
		switch o := &r.Ops[i]; o.Kind {
		case history.OpRead:
			t.Read(o.Table, o.Key, o.Version, o.Digest)
		case history.OpReadAbsent:
			t.ReadAbsent(o.Table, o.Key, o.Version)
		case history.OpWrite:
			t.Write(o.Table, o.Key, o.Version, o.Digest)
		case history.OpDelete:
			t.Delete(o.Table, o.Key, o.Version)
		case history.OpScan:
			t.Scan(o.Table, o.Key, o.High)
		}
	}
	recorder.End(t, r.EndNs, r.Outcome)
}
