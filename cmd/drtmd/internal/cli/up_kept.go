package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/daemon/planes"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/node"
)

// keptTables reports whether the nodes go on with tables that an earlier cluster of the folder has kept, and that runs
// have used. It refuses to give them up unasked. Tables that nobody has used are deleted.
func (c *cluster) keptTables() (goesOn bool, err error) {
	states, err := filepath.Glob(filepath.Join(c.dir, "node*", "state"))
	if err != nil {
		return false, err
	}
	var all []*data.Held
	var used *data.Held
	for _, state := range states {
		var s data.Store
		if err := s.Load(state); err != nil && !c.p.forget {
			return false, err
		}
		h := s.Held()
		if h == nil {
			continue
		}
		all = append(all, h)
		if h.Used() {
			used = h
		}
	}
	if used == nil || c.p.forget {
		return false, c.deleteKept(all)
	}
	return true, c.fits(used)
}

// fits refuses flags that are not those of the tables.
func (c *cluster) fits(h *data.Held) error {
	wrong := ""
	if h.Partitions != c.p.nodes {
		wrong = fmt.Sprintf("they are of %d nodes, and --nodes is %d", h.Partitions, c.p.nodes)
	} else if c.p.nodeCfg != nil {
		tables, err := planes.ServingPlan(c.p.nodeCfg, c.p.nodes).Tables(c.has)
		switch {
		case err != nil:
			return err
		case tables == "":
			wrong = "the nodes would not log transactions (--data-durable)"
		default:
			wrong = load.TablesDiffer(tables, h.Tables)
		}
	}
	if wrong == "" {
		c.log.Info("goes on with the tables that an earlier cluster has kept", zap.String("workload", h.Workload),
			zap.String("protocol", h.Protocol), zap.Int("runs", h.Runs))
		return nil
	}
	return fmt.Errorf("the cluster before in %s has kept its tables (%s, %s), which runs have used: %s; give the flags as "+
		"they were, or give the tables up with --forget", c.dir, h.Workload, h.Protocol, wrong)
}

// deleteKept deletes the memory of tables.
func (c *cluster) deleteKept(all []*data.Held) error {
	if len(all) == 0 {
		return nil
	}
	o := transport.Options{RunDir: upRunDir(c.dir)}
	if dir := os.Getenv(runDirVariable); dir != "" {
		o.RunDir = dir
	}
	if c.p.nodeCfg != nil {
		o.KeepDir = c.p.nodeCfg.Transport.KeepDir
	}
	p, err := transport.New(c.p.transport, o)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		_, err := node.RemoveKept(p, h.Memory)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
