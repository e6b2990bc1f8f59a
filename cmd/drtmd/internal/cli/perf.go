package cli

import (
	"time"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/bench"
	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/transport"
)

const perfLong = `perf measures the latency and the message rate of RDMA operations. OP is one of

  read   RDMA READ               cas    compare and swap, 8 bytes
  write  RDMA WRITE              faa    fetch and add, 8 bytes
  send   SEND on an RC QP        ud     SEND on a UD QP, at most one path MTU

or all, the default. Both sides run in this process, between two contexts of the device, unless
--connect names another process that runs drtmd perf --listen.

Columns:

  median, 99 %, 99.9 %  latency with one operation outstanding. For read, cas and faa (and a write
                        of 0 bytes) from the post to the polled completion, as ib_read_lat and
                        ib_atomic_lat measure. For write, send and ud half of a ping-pong of
                        messages of that size, as ib_write_lat and ib_send_lat measure; a write has
                        arrived when its last byte is seen in memory. Each latency contains one
                        clock reading, whose cost is printed.
  rate                  operations per second with --depth requests outstanding on one QP, posted
                        --batch at a time, one signaled completion per batch. send and ud count
                        messages received; the receiver grants credits, so it never runs out of
                        buffers.
  payload               rate times size, 10^6 bytes per second.

Each latency is warmed up with up to 100 operations. All operations of a measurement use the same
memory, so caches are warm. At the end perf verifies the data moved. Busy polling needs one core per
side: with fewer free cores both numbers measure the scheduler.

Sizes: 0 to the device's largest message, here at most 64 MiB; cas and faa 8 only; ud up to the
path MTU. Several sizes are separated by commas.

Between two processes, the listening side serves one run and exits. Its own flags name only its
transport and device; the connecting side decides everything else. The two sides exchange
endpoints and rkeys over TCP without encryption: anyone who can connect or eavesdrop can read and
write the memory of the measurement. Therefore --listen without an address binds to 127.0.0.1;
name another address on a trusted network only. The listener refuses a peer that is not drtmd perf
of the same version within a second, and waits on. If a peer vanishes or is stopped, the run ends
with an error after at most 10 s without progress. On transport shm both processes must run on the
same host as the same user.

--json prints one document of schema ` + report.PerfSchema + `, described in docs/PERF.md: settings,
machine and one result per row, with units in the field names. An interrupted run prints the rows
that it has.

Exit codes:
  0    done
  1    failed
  2    wrong command line
  130  interrupted`

const perfExample = `
  drtmd perf                                       every operation on shared memory
  drtmd perf read --size 64,4096 --duration 2s
  drtmd perf cas --transport ibv --device rxe0 --iters 10000 --json
  drtmd perf send --measure rate --depth 256 --batch 32

  drtmd perf --listen                              in one shell ...
  drtmd perf read --connect 127.0.0.1              ... and in another

  drtmd perf --listen 10.77.0.1 --transport ibv    on one host ...
  drtmd perf --transport ibv --connect 10.77.0.1   ... and on another`

// perfFlags are the flags as given.
type perfFlags struct {
	transport, device, runDir string
	gidIndex, ibPort          int
	sizes                     []int
	depth, batch, inline      int
	iters                     int
	duration                  time.Duration
	measure                   string
	json                      bool
	listen, connect           string
}

const (
	// allDuration of each measurement keeps the whole table under 10 s.
	allDuration = 200 * time.Millisecond
	oneDuration = time.Second
)

func (a *app) perfCommand() *cobra.Command {
	p := &perfFlags{}
	c := &cobra.Command{
		Use:       "perf [OP]",
		Short:     "measure latency and message rate of RDMA operations",
		Long:      perfLong,
		Example:   perfExample[1:],
		ValidArgs: opNames(),
		Args:      func(*cobra.Command, []string) error { return nil }, // checked with the flags
	}
	f := c.Flags()
	f.StringVar(&p.transport, "transport", transport.Default, "transport `NAME`: shm or ibv")
	f.StringVar(&p.device, "device", "", deviceUsage)
	f.IntVar(&p.ibPort, "ib-port", 1, "port `N` of the device")
	f.IntVar(&p.gidIndex, "gid-index", -1, "row `N` of the port's GID table; -1: the row that drtmd "+
		"devices marks, RoCE v2 with an IPv4 address first")
	f.StringVar(&p.runDir, "run-dir", "", runDirUsage)
	f.IntSliceVar(&p.sizes, "size", nil, "payload sizes, `BYTES[,BYTES...]`; default: several sizes per operation")
	f.IntVar(&p.depth, "depth", 0, "keep `N` requests outstanding for the rate; default 128, or "+
		"the device's limit")
	f.IntVar(&p.batch, "batch", 0, "post `N` requests at a time for the rate; default 16, or half "+
		"the depth")
	f.IntVar(&p.inline, "inline", -1, "send payloads up to `BYTES` inline; -1: the device's limit, "+
		"at most 236")
	f.IntVar(&p.iters, "iters", 0, "`N` operations per measurement, instead of --duration")
	f.DurationVar(&p.duration, "duration", 0, "`TIME` per measurement, such as 500ms or 2s; default "+
		"1s; with OP all 200ms")
	f.StringVar(&p.measure, "measure", "both", "measure `WHAT`: latency, rate or both")
	f.BoolVar(&p.json, "json", false, "print JSON (schema "+report.PerfSchema+")")
	f.StringVar(&p.listen, "listen", "", "serve one run of another process on `ADDR`: HOST, :PORT "+
		"or HOST:PORT")
	f.Lookup("listen").NoOptDefVal = listenDefault
	f.StringVar(&p.connect, "connect", "", "measure against the process that listens at "+
		"`HOST[:PORT]`")
	c.RunE = func(c *cobra.Command, args []string) error {
		r, err := p.check(c, args)
		if err != nil {
			return err
		}
		r.app = a
		return r.run(c.Context())
	}
	return c
}

// listenDefault stands for --listen without an address.
const listenDefault = "127.0.0.1:" + exchange.DefaultPort

func opNames() []string {
	names := []string{"all"}
	for _, o := range bench.Ops() {
		names = append(names, o.String())
	}
	return names
}
