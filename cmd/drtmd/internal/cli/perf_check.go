package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/bench"
	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/verbs"
)

// perfRun is a checked command line of perf.
type perfRun struct {
	*app
	provider verbs.Provider
	device   bench.Device
	options  bench.Options
	json     bool
	listen   string // complete address; "" does not listen
	connect  string // complete address; "" measures within this process
}

// measuringFlags belong to the side that measures.
var measuringFlags = []string{"size", "depth", "batch", "inline", "iters", "duration", "measure",
	"json"}

// check does everything that can be done without a device.
func (p *perfFlags) check(c *cobra.Command, args []string) (*perfRun, error) {
	r := &perfRun{json: p.json}
	var err error
	if r.provider, err = transport.New(p.transport, transport.Options{RunDir: p.runDir}); err != nil {
		return nil, err
	}
	given := c.Flags().Changed
	switch {
	case given("run-dir") && p.transport != "shm":
		return nil, usagef("", "--run-dir is for transport shm only")
	case p.ibPort < 1:
		return nil, usagef("ports count from 1", "--ib-port %d", p.ibPort)
	case given("listen") && given("connect"):
		return nil, usagef("one process listens, the other connects",
			"--listen and --connect exclude each other")
	}
	r.device = bench.Device{Provider: r.provider, Name: p.device, Port: p.ibPort,
		GIDIndex: p.gidIndex}
	if given("listen") {
		return r, p.checkListen(c, args, r)
	}
	if given("connect") {
		if r.connect, err = exchange.Address(p.connect); err != nil || p.connect == "" {
			return nil, usagef("--connect takes HOST or HOST:PORT", "--connect %q", p.connect)
		}
	}
	r.options, err = p.checkOptions(c, args)
	return r, err
}

// checkListen takes the address from the flag or, since --listen ADDR reads naturally, from the
// argument that follows it.
func (p *perfFlags) checkListen(c *cobra.Command, args []string, r *perfRun) error {
	for _, name := range measuringFlags {
		if c.Flags().Changed(name) {
			return usagef("give it to the connecting side, which leads",
				"--%s has no effect with --listen", name)
		}
	}
	address := p.listen
	switch {
	case len(args) > 1 || len(args) == 1 && address != listenDefault:
		return usagef("", "--listen takes one address, and no operation")
	case len(args) == 1:
		address = args[0]
		if _, isOp := bench.ParseOp(address); isOp || address == "all" {
			return usagef("give it to the connecting side, which leads",
				"--listen takes no operation")
		}
	}
	var err error
	if r.listen, err = exchange.Address(address); err != nil {
		return usagef("--listen takes HOST, :PORT or HOST:PORT", "--listen %q", address)
	}
	return nil
}

func (p *perfFlags) checkOptions(c *cobra.Command, args []string) (bench.Options, error) {
	given := c.Flags().Changed
	o := bench.Options{Sizes: p.sizes, Depth: p.depth, Batch: p.batch, Inline: p.inline,
		Iters: p.iters, Duration: p.duration}
	var err error
	if o.Ops, err = parseOps(args); err != nil {
		return o, err
	}
	if o.Phases, err = parseMeasure(p.measure); err != nil {
		return o, err
	}
	for _, s := range p.sizes {
		if s < 0 || s > bench.MaxSize {
			return o, usagef("", "--size %d is not in 0..%d", s, bench.MaxSize)
		}
	}
	switch {
	case given("size") && len(p.sizes) == 0:
		return o, usagef("", "--size takes at least one size")
	case given("depth") && p.depth < 1:
		return o, usagef("", "--depth %d is not positive", p.depth)
	case given("batch") && p.batch < 1:
		return o, usagef("", "--batch %d is not positive", p.batch)
	case p.inline < -1:
		return o, usagef("", "--inline %d is negative", p.inline)
	case given("iters") && given("duration"):
		return o, usagef("", "--iters and --duration exclude each other")
	case given("iters") && (p.iters < 1 || p.iters > bench.MaxIters):
		return o, usagef("", "--iters %d is not in 1..%d", p.iters, bench.MaxIters)
	case given("duration") && p.duration <= 0:
		return o, usagef("", "--duration %s is not positive", p.duration)
	}
	switch {
	case given("iters") || given("duration"):
	case o.Ops == nil:
		o.Duration = allDuration
	default:
		o.Duration = oneDuration
	}
	return o, nil
}

// parseOps gives nil for all.
func parseOps(args []string) ([]bench.Op, error) {
	switch {
	case len(args) == 0, len(args) == 1 && args[0] == "all":
		return nil, nil
	case len(args) > 1:
		return nil, usagef("see drtmd perf --help", "perf takes one operation, not %q",
			strings.Join(args, " "))
	}
	op, ok := bench.ParseOp(args[0])
	if !ok {
		hint := "operations: " + strings.Join(opNames(), ", ")
		if near, ok := nearest(args[0], opNames()); ok {
			hint = "did you mean " + near + "? " + hint
		}
		return nil, usagef(hint, "unknown operation %q", args[0])
	}
	return []bench.Op{op}, nil
}

func parseMeasure(s string) ([]bench.Phase, error) {
	switch s {
	case "both":
		return []bench.Phase{bench.Latency, bench.Rate}, nil
	case "latency":
		return []bench.Phase{bench.Latency}, nil
	case "rate":
		return []bench.Phase{bench.Rate}, nil
	}
	return nil, usagef("use latency, rate or both", "unknown --measure %q", s)
}
