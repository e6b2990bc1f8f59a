package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/member/etcdmember"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
)

// Default is the default configuration of a drtmd that has these protocols and workloads.
func Default(has *composition.Composition) Config {
	return Config{
		Has:  has,
		Node: Node{ID: -1},
		Control: Control{Listen: "127.0.0.1:7440", MaxConnections: 64, MaxMessage: 16 << 20,
			RatePerPeer: 200},
		Admin:     Admin{Listen: "127.0.0.1:7441"},
		Cluster:   Cluster{Name: "drtmd", EtcdListen: "127.0.0.1:0", Lease: 5 * time.Second},
		Transport: Transport{Provider: transport.Default, GIDIndex: -1},
		Data: Data{Workload: has.DefaultWorkload().Name, Protocol: has.DefaultProtocol().Name,
			Replicas: 1, Workers: 1, Fibers: 16, Cache: 16 << 20},
		Log: Log{Level: "info", Format: "auto"},
	}
}

// longestName of a node, in bytes.
const longestName = 64

// LeaseFits reports whether a membership lease is valid: whole seconds, between etcd's least and an hour.
func LeaseFits(l time.Duration) bool {
	return l >= etcdmember.LeastLease && l <= time.Hour && l%time.Second == 0
}

// Problem is what is wrong with the value of a key.
type Problem struct {
	Path, Text string
	With       []string // other keys that it comes from
}

// problems lists what cannot work, by key.
func (c *Config) problems() []Problem {
	var all []Problem
	bad := func(path, format string, args ...any) {
		all = append(all, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
	}
	with := func(paths ...string) { all[len(all)-1].With = paths } // of the last one
	within := func(path string, v, low, high int) {
		if v < low || v > high {
			bad(path, "expected %d to %d, not %d", low, high, v)
		}
	}
	within("node.id", c.Node.ID, -1, 255)
	if n := c.Node.Name; len(n) > longestName || strings.ContainsFunc(n, func(r rune) bool {
		return !unicode.IsPrint(r) || unicode.IsSpace(r) && r != ' '
	}) || n != strings.TrimSpace(n) {
		bad("node.name", "expected at most %d printable characters, not %.70q", longestName, n)
	}
	if _, err := ParseCPUs(c.Node.CPUs); err != nil {
		bad("node.cpus", "%v", err)
	}
	address := func(path, text string, sockets bool) {
		if sockets && strings.HasPrefix(text, "unix:") {
			return
		}
		what := "HOST:PORT"
		if sockets {
			what += " or unix:PATH"
		}
		_, port, err := net.SplitHostPort(text)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
			bad(path, "expected %s, not %q", what, text)
		}
	}
	address("control.listen", c.Control.Listen, true)
	if c.Control.Advertise != "" {
		address("control.advertise", c.Control.Advertise, true)
	}
	if files := []string{c.Control.CA, c.Control.Cert, c.Control.Key}; (files[0] == "") !=
		(files[1] == "") || (files[1] == "") != (files[2] == "") {
		bad("control.cert", "control.ca, control.cert and control.key go together: all three or none")
	} else if files[0] != "" {
		all = append(all, certificateProblems(files[0], files[1], files[2])...)
	}
	secure := c.Control.CA != ""
	err := control.MayListen(c.Control.Listen, secure, c.Control.Insecure)
	if errors.Is(err, control.ErrOpen) {
		bad("control.listen", "%v", err)
		with("control.ca", "control.insecure")
	}
	if errors.Is(control.MayListen(c.Cluster.EtcdListen, secure, false), control.ErrOpen) {
		bad("cluster.etcd_listen", "%v, not %s: give control.ca, control.cert and control.key (drtmd "+
			"certs makes them)", control.ErrOpen, c.Cluster.EtcdListen)
		with("control.ca")
	}
	within("control.max_connections", c.Control.MaxConnections, 4, 1<<16)
	if m := c.Control.MaxMessage; m < 64<<10 || m > 1<<30 {
		bad("control.max_message", "expected 64KiB to 1GiB, not %v", m)
	}
	if r := c.Control.RatePerPeer; !(r >= 1 && r <= 1e6) {
		bad("control.rate_per_peer", "expected 1 to 1000000, not %g", r)
	}
	if c.Admin.Listen != "off" {
		address("admin.listen", c.Admin.Listen, false)
	}
	if n := c.Cluster.Name; n == "" || strings.ContainsAny(n, "/ \t\n") {
		bad("cluster.name", "expected a word without slashes, not %q", n)
	}
	for _, j := range c.Cluster.Join {
		address("cluster.join", j, true)
	}
	for _, e := range c.Cluster.Etcd {
		if !strings.HasPrefix(e, "http://") && !strings.HasPrefix(e, "https://") {
			bad("cluster.etcd", "expected URLs such as https://10.0.0.9:2379, not %q", e)
		}
	}
	address("cluster.etcd_listen", c.Cluster.EtcdListen, false)
	if len(c.Cluster.Etcd) > 0 && c.Cluster.EtcdListen != Default(c.Has).Cluster.EtcdListen {
		bad("cluster.etcd_listen", "with cluster.etcd none is embedded: leave one of them out")
		with("cluster.etcd")
	}
	if l := c.Cluster.Lease; !LeaseFits(l) {
		bad("cluster.lease", "expected whole seconds from %v to 1h, not %v", etcdmember.LeastLease, l)
	}
	c.checkData(bad, with, within)
	return all
}

// notKept are the characters of a node's name that a name of kept memory has not.
var notKept = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// maxKept bounds the name of kept memory.
const maxKept = 64

// Kept is the name of the memory of tables that are kept: data.keep, else the node's name.
func (c *Config) Kept() string {
	if c.Data.Keep != "" {
		return c.Data.Keep
	}
	name := notKept.ReplaceAllString(c.Node.Hostname(), "_")
	return name[:min(len(name), maxKept)]
}

// keepName is what data.keep may be.
var keepName = regexp.MustCompile(`^[A-Za-z0-9_-]{0,64}$`)

func (c *Config) checkData(bad func(path, format string, args ...any), with func(paths ...string),
	within func(path string, v, low, high int)) {
	if _, err := transport.New(c.Transport.Provider, transport.Options{}); err != nil {
		bad("transport.provider", "%v", err)
	}
	within("transport.gid_index", c.Transport.GIDIndex, -1, 65535)
	if w, err := c.Has.Workload(c.Data.Workload); err != nil {
		bad("data.workload", "%v", err)
	} else if c.checkOptions("workload", w.Name, w.Options, bad, with) {
		if _, _, err := w.Make(2, c.Data.WorkloadOptions); err != nil {
			bad("data.workload", "%v", err)
		}
	}
	switch p, err := c.Has.Protocol(c.Data.Protocol); {
	case err != nil:
		bad("data.protocol", "%v", err)
	case p.OneThread:
		bad("data.protocol", "protocol %s runs in one process only", p.Name)
	case p.Chips != nil:
		bad("data.protocol", "protocol %s runs on chips that only the simulator has: drtmd bench --transport sim", p.Name)
	case c.Data.Replicas > 1 && !p.Replicates:
		bad("data.replicas", "expected 1, not %d: protocol %s keeps one copy of each record", c.Data.Replicas, p.Name)
		with("data.protocol")
	case c.Data.Growth > 0 && !p.Grows:
		bad("data.growth", "expected 0B, not %v: protocol %s keeps each table in one memory region", c.Data.Growth,
			p.Name)
		with("data.protocol")
	default:
		if c.checkOptions("protocol", p.Name, p.Options, bad, with) {
			c.checkKeeping(&p, bad, with)
		}
	}
	within("data.replicas", c.Data.Replicas, 1, 64)
	within("data.workers", c.Data.Workers, 1, 64)
	if n := c.Data.Threads; n < 0 || n > c.Data.Workers {
		bad("data.threads", "expected 0 to %d (data.workers), not %d", c.Data.Workers, n)
		with("data.workers")
	}
	within("data.fibers", c.Data.Fibers, 1, 1024)
	if b := c.Data.Cache; b < 64<<10 || b > 1<<40 {
		bad("data.cache", "expected 64KiB to 1024GiB, not %v", b)
	}
	switch ibv := c.Transport.Provider == "ibv"; {
	case !keepName.MatchString(c.Data.Keep):
		bad("data.keep", "expected at most 64 letters, digits, - and _, not %q", c.Data.Keep)
	case c.Data.Keep != "" && ibv && c.Transport.KeepDir == "":
		bad("data.keep", "the ibv transport keeps memory in files: name their folder with transport.keep_dir")
		with("transport.keep_dir")
	case c.Transport.KeepDir != "" && !ibv:
		bad("transport.keep_dir", "expected nothing: the %s transport keeps memory in its run_dir",
			c.Transport.Provider)
		with("transport.provider")
	}
	if b := c.Data.Growth; b > 1<<40 {
		bad("data.growth", "expected 0B to 1024GiB, not %v", b)
	}
	switch c.Log.Level {
	case "debug", "info", "warn", "error":
	default:
		bad("log.level", "expected debug, info, warn or error, not %q", c.Log.Level)
	}
	switch c.Log.Format {
	case "auto", "console", "json":
	default:
		bad("log.format", "expected auto, console or json, not %q", c.Log.Format)
	}
}

// checkKeeping refuses workers that log their own transactions, for tables that are kept, where nothing can be kept.
func (c *Config) checkKeeping(p *protocol.Protocol, bad func(path, format string, args ...any), with func(paths ...string)) {
	v, err := p.Options.Values(c.Data.Options)
	if err == nil && p.OwnLog != nil && p.OwnLog(v) > 0 && c.Transport.Provider == "ibv" && c.Transport.KeepDir == "" {
		bad("transport.keep_dir", "expected a folder: the settings of protocol %s keep the tables over restarts, and the ibv "+
			"transport keeps memory in files", p.Name)
		with("data.protocol")
	}
}

// checkOptions looks at those of a protocol or workload that were given, and reports whether all can be.
func (c *Config) checkOptions(kind, owner string, list option.List,
	bad func(path, format string, args ...any), with func(paths ...string)) bool {
	good := true
	for _, k := range Keys(c.Has) {
		if k.option == nil || k.kind != kind {
			continue
		}
		text, given := k.given(c)[k.option.Name]
		if !given {
			continue
		}
		o, ok := list.Find(k.option.Name)
		if !ok {
			bad(k.Path, "%s %s has no such option; it is one of %s", kind, owner,
				strings.Join(k.option.Owners, ", "))
			with("data." + kind)
			good = false
			continue
		}
		var wrong *option.Error
		if _, err := o.Parse(text); errors.As(err, &wrong) {
			bad(k.Path, "%s", wrong.Why)
			good = false
		}
	}
	return good
}

// certificateProblems are those of the files, each under its own key.
func certificateProblems(ca, cert, key string) (all []Problem) {
	_, err := control.LoadSecurity(ca, cert, key)
	for _, err := range unjoin(err) {
		path := "control.cert"
		if f := (*control.FileError)(nil); errors.As(err, &f) {
			path = "control." + f.Setting
		}
		all = append(all, Problem{Path: path, Text: err.Error()})
	}
	return all
}

// unjoin returns the errors that errors.Join has joined.
func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// ThreadCount is the number of OS threads: as asked for, else one for each worker and CPU.
func (d *Data) ThreadCount() int {
	if d.Threads > 0 {
		return d.Threads
	}
	return max(1, min(d.Workers, runtime.NumCPU()))
}

// ParseCPUs reads a list such as "2-5,8"; "" is none.
func ParseCPUs(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var all []int
	seen := map[int]bool{}
	for _, part := range strings.Split(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		a, err1 := strconv.Atoi(low)
		b, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || a < 0 || b < a || b > 8191 {
			return nil, fmt.Errorf("expected CPUs such as 2-5,8, not %q", text)
		}
		for n := a; n <= b; n++ {
			if seen[n] {
				return nil, fmt.Errorf("CPU %d is named twice in %q", n, text)
			}
			seen[n] = true
			all = append(all, n)
		}
	}
	return all, nil
}

// Hostname is the name of the node: as configured, else the host's.
func (n *Node) Hostname() string {
	if n.Name != "" {
		return n.Name
	}
	h, err := os.Hostname()
	if err != nil {
		return "unnamed"
	}
	return h
}
