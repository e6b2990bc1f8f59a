package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/daemon/planes"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto"
	"drtmd/proto/node"
)

// machineName is equal for processes that share CLOCK_MONOTONIC: those of one boot of one machine,
// in one time namespace.
func machineName() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		host, _ := os.Hostname() // "" is never equal to a name with a boot
		return "unknown boot of " + host
	}
	space, _ := os.Readlink("/proc/self/ns/time") // kernels before 5.6 have one
	return strings.TrimSpace(string(boot)) + " " + space
}

// queueBytes is room for what a worker locks beside the tables, its queues and buffers of messages:
// with the usual window and datagrams of 4 KiB it has 48 KiB for each peer.
const queueBytes = 8 << 20

// lookAtMemory says which limits are in the way of the tables, and what would make them faster.
func (d *Daemon) lookAtMemory() error {
	cfg, err := planes.ServingPlan(d.cfg, max(d.cfg.Data.Replicas, 1)).Make(d.cfg.Has)
	if err != nil {
		return err
	}
	bytes, err := node.TableBytes(cfg.Workload, &cfg.Protocol, cfg.Options)
	if err != nil {
		return err
	}
	bytes *= max(cfg.Replicas, 1)
	logs, err := cfg.LogBytes()
	if err != nil {
		return err
	}
	bytes += logs + int(cfg.Growth.Bytes)
	need := bytes + d.cfg.Data.Workers*queueBytes
	for _, p := range service.LimitProblems(d.cfg.Transport.Provider, need) {
		d.log.Warn(p)
	}
	if d.cfg.Transport.Provider == transport.Default {
		bytes += bytes / 8 // a word for each line, see verbs/shm
	}
	if advice := service.HugePageAdvice(bytes); advice != "" {
		d.log.Info(advice)
	}
	return nil
}

// placeThreads chooses the CPUs of worker threads.
func placeThreads(cfg *config.Config, device string) (*service.Placement, error) {
	asked, err := config.ParseCPUs(cfg.Node.CPUs)
	if err != nil {
		return nil, fmt.Errorf("node.cpus: %w", err)
	}
	allowed, err := service.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	return service.Place(asked, allowed, device)
}

// place is where worker threads were placed; the zero value before they were.
func (d *Daemon) place() service.Placement {
	if p := d.placed.Load(); p != nil {
		return *p
	}
	return service.Placement{}
}

// threads is how many OS threads the workers of a plan run on: as it says, else as data.threads
// says, else one for each worker and CPU.
func (d *Daemon) threads(asked, workers int) int {
	if asked > 0 {
		return asked
	}
	data := d.cfg.Data
	data.Workers = workers
	n := min(data.ThreadCount(), workers)
	if cpus := len(d.place().CPUs); data.Threads == 0 && cpus > 0 {
		n = min(n, cpus)
	}
	return n
}

// describeHost says what the node has of its host.
type describeHost struct{ d *Daemon }

// Describe implements board.Describer.
func (h describeHost) Describe(_ context.Context, n *status.Node) {
	if p := h.d.place(); p.Why != "" {
		n.CPUs = &status.CPUs{List: service.CPUList(p.CPUs), Why: p.Why}
	}
	n.Memory.CacheBytes = uint64(h.d.cfg.Data.Cache)
}

// recordBytes is what all recorders of a node keep in memory, before they go on in a file.
const recordBytes = 1 << 30

// tellLeft says what was in kept memory of an earlier life: once, because the planes of this life leave
// memory, too.
func (d *Daemon) tellLeft(left []node.Left) {
	d.left.Do(func() {
		for i := range left {
			d.board.Event(status.Info, left[i].String()+"; the tables are loaded anew")
		}
	})
}

// openPlane builds the node's part of a plane.
func (d *Daemon) openPlane(ctx context.Context, r *load.Request, p *node.Part) (*node.Cluster,
	*load.Options, error) {
	if r.Plan == nil {
		return nil, nil, errors.New("open: without a plan")
	}
	cfg, err := r.Plan.Make(d.cfg.Has)
	if err != nil {
		return nil, nil, err
	}
	cfg.CacheBytes, cfg.Retried = int(d.cfg.Data.Cache), true
	if r.Plan.Record {
		cfg.Record = &node.Recording{SpillDir: d.tempDir, MemoryBytes: recordBytes / int64(cfg.Workers),
			Keep: cfg.Replicas > 1 || r.Data != nil} // the tables outlive this process: so does what it has told
	}
	place := d.place()
	local := node.LocalConfig{Config: cfg, Provider: d.device.provider,
		Device: d.cfg.Transport.Device, GID: d.device.gid(), Part: p,
		Threads: d.threads(r.Plan.Threads, cfg.Workers), CPUs: place.Sets()}
	if err := d.keepTables(r, p, &local); err != nil {
		return nil, nil, err
	}
	c, err := node.NewLocal(ctx, local)
	if err != nil {
		if problems := service.LimitProblems(d.cfg.Transport.Provider, 0); len(problems) > 0 {
			err = fmt.Errorf("%w; %s", err, strings.Join(problems, "; "))
		}
		return nil, nil, err
	}
	d.tellLeft(c.Left)
	o := r.Plan.Options(cfg.Workload)
	return c, &o, nil
}

// keepTables says where the node's tables are kept, and whether they are there.
func (d *Daemon) keepTables(r *load.Request, p *node.Part, local *node.LocalConfig) error {
	name := d.cfg.Data.Keep
	if r.Data != nil {
		h, err := d.heldTables(r, p)
		if err != nil {
			return err
		}
		name, local.Attach = h.Memory, r.Data.Attach
	}
	if name != "" {
		local.Keep = func(proto.NodeID) string { return name } // the part has one member
	}
	return nil
}

// heldTables is the record of the tables that the node goes on with, or is about to load. Those that it held before, and
// that nobody has used, are deleted.
func (d *Daemon) heldTables(r *load.Request, p *node.Part) (*data.Held, error) {
	tables, err := r.Plan.Tables(d.cfg.Has)
	if err != nil {
		return nil, err
	}
	partition := int(p.Members[0])
	if r.Data.Attach {
		if h := d.data.Held(); h != nil && h.Tables != tables {
			return nil, fmt.Errorf("%w: it keeps %s with other settings: %s", data.ErrOther, h,
				load.TablesDiffer(h.Tables, tables))
		}
		h, err := d.data.Attach(r.Data.ID, partition, p.Clock.Now())
		if err != nil {
			return nil, err
		}
		return h, d.data.Forget()
	}
	h := data.Held{ID: r.Data.ID, Partition: partition, Partitions: r.Plan.Nodes, Tables: tables,
		Memory: fmt.Sprintf("%s-%s-%d", d.cfg.Kept(), r.Data.ID, partition), Where: d.keptIn(),
		Workload: r.Plan.Workload, Protocol: r.Plan.Protocol, ClockNs: int64(p.Clock.Now())}
	before, err := d.data.Replace(h)
	if err == nil && before != nil {
		_, err = node.RemoveKept(d.device.provider, before.Memory)
	}
	return &h, err
}
