package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/bench"
	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/verbs"
)

const (
	dialTimeout = 3 * time.Second
	// minProcs: both sides poll busily, and the rest of the process needs two more threads.
	minProcs = 4
)

func (r *perfRun) run(ctx context.Context) error {
	if runtime.GOMAXPROCS(0) < minProcs {
		runtime.GOMAXPROCS(minProcs)
	}
	st, err := r.open()
	if err != nil {
		return err
	}
	switch {
	case r.listen != "":
		err = r.serve(ctx, st)
	case r.connect != "":
		err = r.measureRemote(ctx, st)
	default:
		err = r.measureHere(ctx, st)
	}
	return errors.Join(err, st.Close())
}

// open opens the device, or says which there are.
func (r *perfRun) open() (*bench.Station, error) {
	st, err := bench.Open(r.device)
	if !errors.Is(err, verbs.ErrNoDevice) {
		return st, err
	}
	infos, listErr := r.provider.Devices()
	if listErr != nil {
		return nil, errors.Join(err, listErr)
	}
	var names []string
	for _, d := range infos {
		if d.Err != nil && (r.device.Name == "" || r.device.Name == d.Name) {
			return nil, d.Err // it is there, and this is why it cannot be used
		}
		names = append(names, d.Name)
	}
	transport := r.provider.Name()
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: transport %s has none on this machine; next: %s",
			verbs.ErrNoDevice, transport, nextDevice)
	}
	return nil, usagef("available: "+strings.Join(names, ", "),
		"transport %s has no device %q", transport, r.device.Name)
}

// serve is the listening side.
func (r *perfRun) serve(ctx context.Context, st *bench.Station) error {
	l, err := exchange.Listen(ctx, r.listen)
	if err != nil {
		return listenError(r.listen, err)
	}
	log := r.log.With(zap.String("device", st.Attr().Name))
	log.Info("waiting for drtmd perf --connect", zap.String("address", l.Addr().String()))
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		log.Warn("rkeys travel unencrypted: whoever reaches this address can reach the memory of " +
			"the measurement")
	}
	conn, err := exchange.WaitForPeer(ctx, l, st.Hello(), func(from net.Addr, err error) {
		log.Warn("refused a connection", zap.Stringer("from", from), zap.String("reason", err.Error()))
	})
	if err != nil {
		return err
	}
	log.Info("serving", zap.Stringer("peer", conn.RemoteAddr()))
	err = bench.Serve(ctx, st, conn, func(what string) {
		log.Debug("serving", zap.String("what", what))
	})
	if err == nil {
		log.Info("the peer is done")
	}
	return errors.Join(err, conn.Close())
}

// measureRemote is the connecting side.
func (r *perfRun) measureRemote(ctx context.Context, st *bench.Station) error {
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", r.connect)
	if err != nil {
		return connectError(r.connect, err)
	}
	conn, err := exchange.Dial(ctx, c, st.Hello())
	if err != nil {
		return fmt.Errorf("connect to %s: %w", r.connect, err)
	}
	doc := r.document(st)
	doc.Peer = report.Peer{Address: conn.RemoteAddr().String(), Device: conn.Peer.Device,
		Driver: conn.Peer.Driver}
	err = r.measure(ctx, doc, func(pr bench.Progress) ([]bench.Result, error) {
		return bench.Run(ctx, st, conn, r.options, pr)
	})
	return errors.Join(err, conn.Close())
}

// measureHere has both sides in this process.
func (r *perfRun) measureHere(ctx context.Context, st *bench.Station) error {
	other, err := bench.Open(r.device)
	if err != nil {
		return err
	}
	doc := r.document(st)
	doc.Peer = report.Peer{SameProcess: true, Device: other.Attr().Name,
		Driver: other.Attr().Driver}
	err = r.measure(ctx, doc, func(pr bench.Progress) ([]bench.Result, error) {
		return bench.Self(ctx, st, other, r.options, pr)
	})
	return errors.Join(err, other.Close())
}

// document is the report with the settings filled in.
func (r *perfRun) document(st *bench.Station) *report.Perf {
	a, gid := st.Attr(), st.GID()
	return &report.Perf{Date: time.Now().UTC(), Machine: report.ThisMachine(), Command: r.args,
		Transport: a.Provider, Device: a.Name, Driver: a.Driver, AtomicScope: a.Atomic.String(),
		ActiveMTU: st.Port().ActiveMTU, GIDIndex: gid.Index, GID: gid.GID.String(),
		Iters: r.options.Iters, DurationNs: int64(r.options.Duration),
		ClockCostNs: bench.ClockCostNs()}
}

// measure runs f with progress and prints what it measured, also after an error or interrupt.
func (r *perfRun) measure(ctx context.Context, doc *report.Perf,
	f func(bench.Progress) ([]bench.Result, error)) error {
	pr, finish := r.progress()
	rows, err := f(pr)
	finish()
	if err != nil && len(rows) == 0 && ctx.Err() == nil {
		return err
	}
	for _, row := range rows {
		doc.Rows = append(doc.Rows, report.NewRow(row))
	}
	doc.Interrupted = ctx.Err() != nil
	if err != nil && !(doc.Interrupted && errors.Is(err, context.Canceled)) {
		doc.Error = err.Error()
	}
	write := doc.WriteText
	if r.json {
		write = doc.WriteJSON
	}
	return errors.Join(err, write(r.stdout))
}
