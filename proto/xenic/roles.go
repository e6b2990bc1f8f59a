package xenic

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/protocol"
)

// The threads of a host (§4.2, Figure 6; §5.6): application threads run transactions, and Robinhood workers apply logs to
// tables. By default each worker of a member is both. With fewer of one or both, the first workers are the application
// threads and the last ones the Robinhood workers, so that some in between may be both. A Robinhood worker has the log of a
// core at least: with fewer cores than workers, by default, the first workers have one each, and the others none.

// Options of the roles.
const (
	OptApplications = "application-threads"
	OptRobinhoods   = "robinhood-workers"
)

// mostThreads is more than the workers that a member may have.
const mostThreads = 1024

func roleOptions() option.List {
	return option.List{
		option.Int(OptApplications, 0, 0, mostThreads, "`N` workers of each node, the first ones, run transactions; 0: all do"),
		option.Int(OptRobinhoods, 0, 0, mostThreads, "`N` workers of each node, the last ones, apply logs to tables; 0: all do, or as many as "+
			"its NIC has cores"),
	}
}

// threads are how many workers of a member have each role.
type threads struct{ workers, applications, robinhoods int }

func threadsOf(s protocol.Sizes, o option.Values) threads {
	t := threads{s.Workers, o.Int(OptApplications), o.Int(OptRobinhoods)}
	if t.applications == 0 {
		t.applications = t.workers
	}
	if t.robinhoods == 0 {
		t.robinhoods = t.workers
	}
	return t
}

// checkRoles refuses counts that a member cannot have.
func checkRoles(s protocol.Sizes, o option.Values) error {
	t := threadsOf(s, o)
	for _, x := range []struct {
		name string
		n    int
	}{{OptApplications, t.applications}, {OptRobinhoods, t.robinhoods}} {
		if x.n > t.workers {
			return fmt.Errorf("%w: --%s %d: each is a worker, and a node has %d (--workers)", ErrConfig, x.name, x.n, t.workers)
		}
	}
	if idle := t.workers - t.applications - t.robinhoods; idle > 0 {
		return fmt.Errorf("%w: --%s %d and --%s %d leave %d of %d workers with nothing to do: use --workers %d, or raise one of them",
			ErrConfig, OptApplications, t.applications, OptRobinhoods, t.robinhoods, idle, t.workers, t.workers-idle)
	}
	if cores := o.Int(OptCores); o.Int(OptRobinhoods) > cores {
		return fmt.Errorf("%w: --%s %d: a node has a log for each of its NIC's %d cores (--%s), and each Robinhood worker applies at "+
			"least one", ErrConfig, OptRobinhoods, t.robinhoods, cores, OptCores)
	}
	workers, cores := roles(s, o)
	idle := 0
	for _, r := range workers {
		if r == 0 {
			idle++
		}
	}
	if idle > 0 {
		return fmt.Errorf("%w: --%s %d and --%s %d leave %d of %d workers with nothing to do, since each core has one log: use "+
			"--workers %d, or raise one of them", ErrConfig, OptApplications, t.applications, OptCores, cores, idle, t.workers,
			t.workers-idle)
	}
	return nil
}

// roles of each worker, and how many cores a NIC has.
func roles(s protocol.Sizes, o option.Values) (workers []protocol.Roles, cores int) {
	t := threadsOf(s, o)
	cores = o.Int(OptCores)
	for i := range t.workers {
		var r protocol.Roles
		if i < t.applications {
			r |= protocol.Application
		}
		if len(t.logs(i, cores)) > 0 {
			r |= protocol.Robinhood
		}
		workers = append(workers, r)
	}
	return workers, cores
}

// logs are the numbers of those that a worker applies.
func (t threads) logs(worker, cores int) (list []int) {
	first := t.workers - t.robinhoods
	for i := worker - first; worker >= first && i < cores; i += t.robinhoods {
		list = append(list, i)
	}
	return list
}
