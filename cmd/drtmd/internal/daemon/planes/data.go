package planes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// Data are the tables that members keep over their lives: of plans whose workers log their own transactions. Each
// member says in its status what it keeps (package data). Whoever builds a plane asks all of them, and decides:
//
//   - Partitions of data that runs have used, and all are there: the plane goes on with them. Its primaries are the
//     members that keep them, in the order of the partitions.
//   - Some of its partitions are missing: nothing is built until their nodes are back.
//   - No data was used, and the serving plan's workers log: the tables are loaded, and kept from then on.
//
// A run goes on with the kept tables if its plan has the same; else it has tables of its own, which are not kept.

// keptSet is one data of the members.
type keptSet struct {
	status.Data                 // of some partition; Loaded: of all, Runs: the most
	at          []member.Member // by partition; the zero value: missing
	found       int
}

// arrangement is who holds the partitions of a plane, and of which data they are.
type arrangement struct {
	primary []member.Member
	data    *load.Data // nil: none is kept
}

// keeps reports whether this node has to ask what the members keep.
func (p *Planes) keeps() bool {
	if p.o.Data == nil {
		return false
	}
	tables, err := p.servingTables(max(p.o.Config.Data.Replicas, 1))
	return err != nil || tables != "" || p.o.Data.Held() != nil
}

// servingTables are those of the serving plan on so many nodes.
func (p *Planes) servingTables(nodes int) (string, error) {
	return ServingPlan(p.o.Config, nodes).Tables(p.o.Config.Has)
}

// described is what a node keeps, for its status.
func (p *Planes) described() *status.Data {
	if p.o.Data == nil {
		return nil
	}
	h := p.o.Data.Held()
	if h == nil {
		return nil
	}
	p.mu.Lock()
	inUse := p.data != nil && p.data.ID == h.ID
	p.mu.Unlock()
	return &status.Data{ID: h.ID, Partition: h.Partition, Partitions: h.Partitions, Memory: h.Memory, Workload: h.Workload,
		Protocol: h.Protocol, Tables: h.Tables, Loaded: h.Loaded, Runs: h.Runs, InUse: inUse}
}

// silentError: a member has not said what it keeps.
type silentError struct {
	member member.Member
	reason string
}

func (e *silentError) Error() string {
	return fmt.Sprintf("%v does not say which tables it keeps: %s", e.member, e.reason)
}

// kept asks the members what they keep. A *silentError is of one that does not answer.
func (p *Planes) kept(ctx context.Context, self member.Member, list []member.Member) (sets []*keptSet, err error) {
	others := slices.DeleteFunc(slices.Clone(list), self.Same)
	nodes := append(p.o.Members.Ask(ctx, others), status.Node{Member: self, Data: p.described()})
	for i := range nodes {
		n := &nodes[i]
		if n.Phase == status.Gone {
			return nil, &silentError{n.Member, n.Reason}
		}
		if n.Data == nil {
			continue
		}
		if sets, err = addKept(sets, n); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// addKept adds what a node keeps.
func addKept(sets []*keptSet, n *status.Node) ([]*keptSet, error) {
	d := n.Data
	i := slices.IndexFunc(sets, func(s *keptSet) bool { return s.ID == d.ID })
	if i < 0 {
		if d.Partitions < 1 || d.Partitions > 64 {
			return nil, fmt.Errorf("%v keeps data %s of %d partitions", n.Member, d.ID, d.Partitions)
		}
		i = len(sets)
		sets = append(sets, &keptSet{Data: *d, at: make([]member.Member, d.Partitions)})
	}
	s := sets[i]
	switch {
	case d.Partitions != s.Partitions || d.Partition < 0 || d.Partition >= s.Partitions || d.Tables != s.Tables:
		return nil, fmt.Errorf("%v keeps partition %d of %d of data %s, and others keep it otherwise", n.Member, d.Partition,
			d.Partitions, d.ID)
	case s.at[d.Partition] != (member.Member{}):
		return nil, fmt.Errorf("%v and %v both keep partition %d of data %s: one of them is a copy; stop it", s.at[d.Partition],
			n.Member, d.Partition, d.ID)
	}
	s.at[d.Partition] = n.Member
	s.found++
	s.Loaded = s.Loaded && d.Loaded
	s.Runs = max(s.Runs, d.Runs)
	return sets, nil
}

// whole: all partitions are there.
func (s *keptSet) whole() bool { return s.found == s.Partitions }

// missing names the partitions that are not there.
func (s *keptSet) missing() string {
	var all []string
	for i, m := range s.at {
		if m == (member.Member{}) {
			all = append(all, fmt.Sprint(i))
		}
	}
	return strings.Join(all, ", ")
}

// goOn is the plane that goes on with it.
func (s *keptSet) goOn() arrangement {
	return arrangement{primary: s.at, data: &load.Data{ID: s.ID, Attach: true}}
}

// used gives the data that runs have used: the one of which all partitions are there, else one that lacks some, else
// nil.
func used(sets []*keptSet) (*keptSet, error) {
	var found *keptSet
	for _, s := range sets {
		switch {
		case s.Runs == 0:
		case found == nil || s.whole() && !found.whole():
			found = s
		case s.whole():
			return nil, fmt.Errorf("the nodes keep two complete data, %s (%s) and %s (%s): stop those of one", found.ID,
				found.Workload, s.ID, s.Workload)
		}
	}
	return found, nil
}

// arrange decides about a plane that serves.
func (p *Planes) arrange(ctx context.Context, self member.Member, active []member.Member) (arrangement, error) {
	plain := arrangement{primary: active}
	if !p.keeps() {
		return plain, nil
	}
	sets, err := p.kept(ctx, self, active)
	if err != nil {
		return plain, err
	}
	s, err := used(sets)
	if err != nil {
		return plain, err
	}
	if s != nil {
		return p.arrangeUsed(s)
	}
	tables, err := p.servingTables(len(active))
	if err != nil || tables == "" {
		return plain, err
	}
	for _, s := range sets {
		if s.whole() && s.Loaded && s.Partitions == len(active) && s.Tables == tables {
			return s.goOn(), nil
		}
	}
	plain.data = &load.Data{ID: fmt.Sprintf("%016x", rand.Uint64())}
	return plain, nil
}

// arrangeUsed has the plane go on with data that runs have used.
func (p *Planes) arrangeUsed(s *keptSet) (a arrangement, err error) {
	if !s.whole() {
		return a, fmt.Errorf("data %s (%s, %s) has %d partitions, and the nodes that keep partition %s are not there: start "+
			"them; to give the data up, remove %s from the state folders of all nodes", s.ID, s.Workload, s.Protocol,
			s.Partitions, s.missing(), data.File)
	}
	tables, err := p.servingTables(s.Partitions)
	switch {
	case err != nil:
		return a, err
	case tables == "":
		err = errors.New("the settings in the section data do not log transactions")
	case tables != s.Tables:
		err = fmt.Errorf("the settings in the section data are others: %s", load.TablesDiffer(tables, s.Tables))
	}
	if err != nil {
		return a, fmt.Errorf("the nodes keep data %s (%s, %s), which runs have used, and %w; set them as they were, or, "+
			"to give the data up, remove %s from the state folders of all nodes", s.ID, s.Workload, s.Protocol, err, data.File)
	}
	return s.goOn(), nil
}

// arrangeRun decides about the plane of a run. note says why it does not use the tables that are kept.
func (p *Planes) arrangeRun(ctx context.Context, self member.Member, active []member.Member, plan *load.Plan) (
	a arrangement, note string, err error) {
	a.primary = active
	if p.o.Data == nil || p.o.Data.Held() == nil {
		return a, "", nil
	}
	sets, err := p.kept(ctx, self, active)
	if err != nil {
		return a, "", err
	}
	own := *plan
	for _, s := range sets {
		own.Nodes = s.Partitions
		tables, err := own.Tables(p.o.Config.Has)
		switch {
		case err != nil:
			return a, "", err
		case tables == "":
			note = fmt.Sprintf("the run has tables of its own, which are not kept; those of data %s (%s, %s) stay as they "+
				"are", s.ID, s.Workload, s.Protocol)
		case tables != s.Tables:
			note = fmt.Sprintf("the run has tables of its own, which are not kept: with %s it would use data %s (%s, %s)",
				load.TablesDiffer(s.Tables, tables), s.ID, s.Workload, s.Protocol)
		case s.whole() && s.Loaded:
			return s.goOn(), "", nil
		}
	}
	return a, note, nil
}

// useData notes, after a step, what it says of the plane's data: when the plane was built, that its tables are loaded,
// and before a run's clients start anywhere, that they are about to use the data. All nodes must have noted that before
// the first client commits: one that has not would take the tables for unused, and neither save nor spare them. So it
// is noted in begin, which all nodes have done before start.
func (p *Planes) useData(step load.Step) error {
	p.mu.Lock()
	d := p.data
	p.mu.Unlock()
	switch {
	case d == nil || p.o.Data == nil:
		return nil
	case step == load.StepBegin:
		return p.o.Data.Use(d.ID)
	case step == load.StepGo:
		return p.o.Data.Loaded(d.ID)
	}
	return nil
}
