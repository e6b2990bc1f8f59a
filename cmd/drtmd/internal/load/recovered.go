package load

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/placement"
)

// Where records have replicas, processes that are gone take nothing with them: the survivors decide their
// transactions, and what they recorded is in files of theirs (history.Salvage), for a leader on the same
// machine.

// RecoveryTotals are what one process, or all, have recovered in a run.
type RecoveryTotals struct {
	Took      time.Duration   `json:"took_ns"` // the last change of members, until nothing of the dead was left
	Committed uint64          `json:"committed"`
	Aborted   uint64          `json:"aborted"`
	Filled    uint64          `json:"records_filled"`
	FillTook  time.Duration   `json:"fill_ns"`                // the longest filling of one replica
	Lost      []proto.ShardID `json:"lost_shards,omitempty"`  // without a replica
	Short     []proto.ShardID `json:"short_shards,omitempty"` // with fewer complete replicas than asked for
	Failed    string          `json:"failed,omitempty"`
}

// Recovered says that a run has gone on without processes that are gone.
type Recovered struct {
	Processes []string `json:"processes"` // how they were lost
	Replicas  int      `json:"replicas"`  // of each record that were asked for
	RecoveryTotals
}

// totals of a part.
func (r *Recovery) totals() *RecoveryTotals {
	t := &RecoveryTotals{Took: r.Took, Committed: r.Committed, Aborted: r.Aborted, Filled: r.Filled, FillTook: r.FillTook,
		Lost: r.Map.Lost(), Short: short(r.Map)}
	if r.Err != nil {
		t.Failed = r.Err.Error()
	}
	return t
}

// short are the shards with fewer complete replicas than they should have.
func short(m *placement.Map) (list []proto.ShardID) {
	for s := range m.Shards {
		if x := &m.Shards[s]; !x.Lost() && 1+len(x.Backups)-len(x.Filling) < m.Replicas {
			list = append(list, proto.ShardID(s))
		}
	}
	return list
}

// add adds another process's.
func (t *RecoveryTotals) add(o *RecoveryTotals) {
	union := func(a, b []proto.ShardID) []proto.ShardID {
		all := slices.Concat(a, b)
		slices.Sort(all)
		return slices.Compact(all)
	}
	t.Took = max(t.Took, o.Took)
	t.Committed += o.Committed
	t.Aborted += o.Aborted
	t.Filled += o.Filled
	t.FillTook = max(t.FillTook, o.FillTook)
	t.Lost, t.Short = union(t.Lost, o.Lost), union(t.Short, o.Short)
	if t.Failed == "" {
		t.Failed = o.Failed
	}
}

// hold opens the files in which a peer records, which outlive it so.
func (p *peer) hold(files []string) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("what it records: %w", err)
		}
		p.kept = append(p.kept, f)
	}
	return nil
}

// drop closes the files.
func (p *peer) drop() (err error) {
	for _, f := range p.kept {
		err = errors.Join(err, f.Close())
	}
	p.kept = nil
	return err
}

// errNotHere: a leader cannot read what a dead process on another machine has recorded.
var errNotHere = errors.New("what it recorded is on its machine: the history cannot be checked without it")

// salvage saves what a dead peer recorded as a history. final: those of the survivors say what the tables hold in the
// end, and its own does, too: nothing, since no replica is its any more.
func (s *peers) salvage(p *peer, final bool) (name string, err error) {
	if len(p.kept) == 0 {
		return "", fmt.Errorf("%s: %w", p.Name(), errNotHere)
	}
	var segments []*history.Segment
	for _, f := range p.kept {
		x, err := history.Salvage(f)
		if err != nil {
			return "", fmt.Errorf("what %s recorded: %w", p.Name(), err)
		}
		segments = append(segments, x)
	}
	p.kept = nil // the history's
	run := history.Run{Names: s.o.Names, Versions: history.Counting, Initial: []*history.Snapshot{}}
	if final {
		run.Final = []*history.Snapshot{}
	}
	h, err := history.NewRun(run, segments...)
	if err != nil {
		return "", err
	}
	name = filepath.Join(s.o.TempDir, fmt.Sprintf("lost-%d.hist", p.members[0]))
	return name, errors.Join(h.WriteFile(name), h.Close())
}

// recover says what became of the peers that are gone: they are lost, or what they leave was recovered, and
// saved has what they recorded. sum is what the others have recovered, nil if their records have no replicas, and final
// says whether their histories have what the tables hold in the end.
func (s *peers) recover(t *totals, sum *RecoveryTotals, final bool) (saved []string) {
	if t.lost = s.loss(); t.lost == nil || sum == nil || s.o.Plan == nil || len(sum.Lost) > 0 || sum.Failed != "" {
		return nil
	}
	x := &Recovered{Replicas: s.o.Plan.Replicas, RecoveryTotals: *sum}
	for _, p := range s.dead {
		x.Processes = append(x.Processes, p.lost().Error())
		if !s.o.Plan.Record {
			continue
		}
		name, err := s.salvage(p, final)
		if err != nil {
			t.lost = &LostError{Processes: []error{p.lost(), err}}
			return nil
		}
		saved = append(saved, name)
	}
	t.lost, t.recovered = nil, x
	// Their locks are gone, also those that no transaction has met since: recovery has given them back.
	for _, p := range s.dead {
		t.orphans = t.orphans.without(p.members)
	}
	return saved
}
