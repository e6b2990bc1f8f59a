package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/memnode"
	"drtmd/proto/node/memory"
	"drtmd/proto/option"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/engine"
	"drtmd/verbs"
)

// Roles of drtmd serve.
const (
	roleNode   = "node"
	roleMemory = "memory"
)

// memoryFlags are those of a memory node.
type memoryFlags struct {
	role, listen, size, keep string
	system, index            string // decide the layout of the memory
	number                   string // I/N
	clients, fibers          int
}

// Defaults of a memory node.
const (
	memoryListen  = "127.0.0.1:7480"
	memorySizeDef = "256MiB"
	memoryClients = 16
	memoryFibers  = 32
	memoryPrefix  = "memory-"
)

func (m *memoryFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.role, "role", roleNode, "`ROLE`: node (of a cluster) or memory (a memory node)")
	f.StringVar(&m.listen, memoryPrefix+"listen", memoryListen, "role memory: `HOST:PORT` or unix:PATH of the set-up "+
		"service; whoever reaches it can change the memory")
	f.StringVar(&m.size, memoryPrefix+"size", memorySizeDef, "role memory: `SIZE` of the memory")
	f.IntVar(&m.clients, memoryPrefix+"clients", memoryClients, "role memory: at most `N` clients at a time")
	f.IntVar(&m.fibers, memoryPrefix+"fibers", memoryFibers, "role memory: at most `N` fibers of a client, on all its workers together")
	f.StringVar(&m.system, memoryPrefix+"for", engine.Systems()[0].Name, "role memory: `PROTOCOL` of the clients, which decides "+
		"the layout of the memory; see drtmd bench --list")
	f.StringVar(&m.index, memoryPrefix+"index", "", "role memory: `INDEX` of the clients, which decides how large blocks are: "+
		engine.IndexNames()+" (default "+engine.Indexes()[0].Name+")")
	f.StringVar(&m.number, memoryPrefix+"number", "1/1", "role memory: `I/N`, the number of the memory node among those that "+
		"clients use together")
	f.StringVar(&m.keep, memoryPrefix+"keep", "", "role memory: keep the memory under `NAME` (letters, digits, - and _) when "+
		"the process ends")
}

// taken are the flags that a memory node takes beside its own.
var taken = []string{"role", configFlag, "transport", "device", "log-level", "log-format"}

// check refuses what the role has no use for.
func (m *memoryFlags) check(c *cobra.Command) (err error) {
	switch m.role {
	case roleNode, roleMemory:
	default:
		return usagef("roles: node, memory", "unknown role %q", m.role)
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		own := strings.HasPrefix(f.Name, memoryPrefix)
		switch {
		case err != nil:
		case m.role == roleNode && own:
			err = usagef("use --role memory", "a node of a cluster has no --%s", f.Name)
		case m.role == roleMemory && !own && !slices.Contains(taken, f.Name) && !strings.HasPrefix(f.Name, "transport-"):
			err = usagef("leave it out", "a memory node has no --%s", f.Name)
		}
	})
	return err
}

// serveMemory runs a memory node until ctx is done.
func (a *app) serveMemory(ctx context.Context, cfg *config.Config, m *memoryFlags) (err error) {
	log, _, err := service.NewLog(a.stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // terminals cannot be synced
	server, device, err := m.open(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close(), device.Close()) }()
	l, err := control.Listen(m.listen, nil, true)
	if err != nil {
		return fmt.Errorf("--%slisten: %w", memoryPrefix, err)
	}
	at := m.listen
	if l.Addr().Network() != "unix" { // with the port that was chosen for port 0
		at = l.Addr().String()
	}
	notifier, err := service.NewNotifier()
	if err == nil {
		err = notifier.Ready("memory node at " + at)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	for _, p := range service.LimitProblems(cfg.Transport.Provider, int(server.Memory().Remote().Length)) {
		log.Warn(p)
	}
	fmt.Fprintf(a.stdout, "READY memory node at %s: %s on %s, for %d clients of %d fibers each\n", at, m.size,
		device.Attr().Name, m.clients, m.fibers)
	err = memory.Serve(ctx, l, server, func(text string) { log.Info(text) })
	if err != nil {
		return &serveError{err}
	}
	return errors.Join(notifier.Stopping())
}

// parseNumber reads I/N.
func (m *memoryFlags) parseNumber() (n engine.Number, err error) {
	i, of, ok := strings.Cut(m.number, "/")
	first, err := strconv.Atoi(i)
	all, err2 := strconv.Atoi(of)
	if !ok || err != nil || err2 != nil || first < 1 || first > all || all > rtx.MaxNodes {
		return n, usagef("", "--%snumber %q is no I/N with I in 1..N and N up to %d", memoryPrefix, m.number, rtx.MaxNodes)
	}
	return engine.Number{Node: first - 1, Nodes: all}, nil
}

// open makes the memory.
func (m *memoryFlags) open(cfg *config.Config) (*memnode.Server, *verbs.Context, error) {
	bytes, err := option.ParseBytes(m.size)
	if err != nil {
		return nil, nil, usagef("", "--%ssize: %v", memoryPrefix, err)
	}
	for _, x := range []struct {
		name    string
		v, most int
	}{{"clients", m.clients, 4096}, {"fibers", m.fibers, 1024}} {
		if x.v < 1 || x.v > x.most {
			return nil, nil, usagef("", "--%s%s %d is not in 1..%d", memoryPrefix, x.name, x.v, x.most)
		}
	}
	if most := availableMemory(); uint64(bytes) > most {
		return nil, nil, usagef("take less", "--%ssize %v is more than the %s of memory that are available", memoryPrefix, bytes,
			memorySize(most))
	}
	system, ok := engine.FindSystem(m.system)
	if !ok {
		return nil, nil, usagef("see drtmd bench --list", "no protocol of memory nodes has the name %q", m.system)
	}
	index, ok := engine.FindIndex(m.index)
	if !ok {
		return nil, nil, usagef("known: "+engine.IndexNames(), "unknown index %q", m.index)
	}
	number, err := m.parseNumber()
	if err != nil {
		return nil, nil, err
	}
	format, err := system.Format(int(bytes), m.clients*m.fibers, &index, number)
	if err != nil {
		return nil, nil, usagef("", "--%ssize: %v", memoryPrefix, err)
	}
	p, err := transport.New(cfg.Transport.Provider, transport.Options{RunDir: cfg.Transport.RunDir,
		KeepDir: cfg.Transport.KeepDir})
	if err != nil {
		return nil, nil, err
	}
	device, err := p.Open(cfg.Transport.Device)
	if err != nil {
		return nil, nil, fmt.Errorf("device: %w; drtmd devices shows what there is", err)
	}
	if cfg.Transport.GIDIndex >= 0 {
		device.PreferGID(verbs.GIDAt(cfg.Transport.GIDIndex))
	}
	server, err := memnode.NewServer(device, memnode.Config{Bytes: int(bytes), Keep: m.keep, Clients: m.clients,
		QueuePairs: m.fibers, Format: format})
	if err != nil {
		return nil, nil, errors.Join(err, device.Close())
	}
	return server, device, nil
}
