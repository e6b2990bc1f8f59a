package reproduce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/memnode"
	paper "drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// Figure 18: how often leases expire of transactions that live.

const (
	leaseClients = 72 // in the paper, too
	// leaseMachines have one clock each.
	leaseMachines = 3
	// clockError is the standard deviation of a clock's error under NTP, which is "typically within a millisecond on LANs"
	// (ntp.org, documentation of ntpd). The paper's clocks are "loosely synchronized via NTP" (§6); it has no number.
	clockError = time.Millisecond
	// leaseWindows is the time from one window to the next one: longer than leases.
	leaseWindows = time.Second
	percent      = 100
)

// leaseLoad is a workload of it: each transaction updates some of the objects, which it draws.
type leaseLoad struct {
	objects, updates int
	timing           paper.Timing
}

// leaseTimes are leases of a drift, and of a length for each object; 0: without regulation.
func leaseTimes(drift, each time.Duration) paper.Timing {
	t := paper.DefaultTiming()
	t.Op, t.Drift = each, drift
	return t
}

// shape has room for clients that update that many objects, of 8 bytes each.
func (l *leaseLoad) shape(clients int) paper.Shape {
	slots := 2*l.updates + 4 // blocks rest while others are used
	chunks := clients*(slots/paper.ChunkBlocks+2) + l.objects/paper.ChunkBlocks + 1
	return paper.Shape{Owners: clients, Slots: slots, Roots: l.objects, Objects: 1,
		Classes: []paper.Class{{Bytes: 64, Blocks: chunks * paper.ChunkBlocks}}}
}

// fill gives the objects their first values.
func (l *leaseLoad) fill(f *fiber.Fiber, c *paper.Client) error {
	for first := 0; first < l.objects; first++ {
		err := c.Run(f, func(tx *paper.Tx) error {
			_, err := tx.Write(c.Root(first), 0)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// update runs transactions until the client gives up, and lets others run behind each. It says when each has ended.
func (l *leaseLoad) update(f *fiber.Fiber, c *paper.Client, source *rand.Rand, ended func()) error {
	chosen := make([]int, l.updates)
	for !c.GivesUp() {
		for i := range chosen {
			for again := true; again; again = slices.Contains(chosen[:i], chosen[i]) {
				chosen[i] = source.IntN(l.objects)
			}
		}
		err := c.Run(f, func(tx *paper.Tx) error {
			for _, k := range chosen {
				v, err := tx.Update(c.Root(k))
				if err != nil {
					return err
				}
				v[0]++
			}
			return nil
		})
		if err != nil && proto.AbortReason(err) == 0 {
			return err
		}
		ended()
		if err := f.Yield(); err != nil {
			return err
		}
	}
	return nil
}

// leaseClock is a machine's clock as the time of day: NTP has set it, more or less.
type leaseClock struct {
	verbs.Clock
	ahead *time.Duration
}

func (c leaseClock) Now() time.Duration { return simulatedTime{c.Clock}.Now() + *c.ahead }

// leaseWorld is a memory node with clients on some machines.
type leaseWorld struct {
	*leaseLoad
	world   *sim.World
	server  *memnode.Server
	workers []*fiber.Worker // of all clients
	clients []*paper.Client
	cores   []*fiber.Core
	ahead   []time.Duration // by machine
	expired map[uint64]struct{}
	over    bool
	failed  error
}

func (x *leaseWorld) note(err error) { x.failed = errors.Join(x.failed, err) }

// run runs all that the workers have to do.
func (x *leaseWorld) run() error { return errors.Join(x.world.Run(), x.failed) }

// newLeaseWorld makes one, with the objects in it.
func (l *leaseLoad) newLeaseWorld(seed uint64) (*leaseWorld, error) {
	x := &leaseWorld{leaseLoad: l, ahead: make([]time.Duration, leaseMachines), clients: make([]*paper.Client, leaseClients),
		expired: map[uint64]struct{}{}}
	cost, err := sim.Preset(cx4)
	if err != nil {
		return nil, err
	}
	if x.world, err = sim.New(sim.Config{Seed: seed, Cost: cost, KeepEvents: -1}); err != nil {
		return nil, err
	}
	shape := l.shape(leaseClients)
	bytes, err := shape.Bytes()
	if err != nil {
		return nil, err
	}
	const each = leaseClients / leaseMachines
	for n := range leaseMachines + 1 {
		machine, err := x.world.AddNode(sim.NodeConfig{})
		if err != nil {
			return nil, err
		}
		device, err := machine.Open()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			err = x.addMachine(n-1, machine, device, seed)
		} else {
			x.server, err = memnode.NewServer(device, memnode.Config{Bytes: bytes, Clients: leaseMachines, QueuePairs: each,
				Format: shape.Format})
		}
		if err != nil {
			return nil, err
		}
	}
	if err := x.run(); err != nil {
		return nil, err
	}
	x.workers[0].Submit("fill", func(f *fiber.Fiber) error { return l.fill(f, x.clients[0]) }, x.note)
	return x, x.run()
}

// addMachine makes a machine's clients.
func (x *leaseWorld) addMachine(n int, machine *sim.Node, device *verbs.Context, seed uint64) error {
	workers, cores, err := workersOn(machine, device, leaseClients/leaseMachines)
	if err != nil {
		return err
	}
	way, err := memnode.Join(x.server.Admit, memnode.ClientID(n+1), workers, verbs.ConnectAttr{})
	if err != nil {
		return err
	}
	first := len(x.workers)
	x.workers, x.cores = append(x.workers, workers...), append(x.cores, cores...)
	for i, w := range workers {
		owner := first + i
		w.Submit("attach", func(f *fiber.Fiber) (err error) {
			x.clients[owner], err = paper.Attach(f, paper.Config{Conn: way.Conns[i], PD: w.PD(), Memory: way.Memory, Owner: owner,
				Clock: leaseClock{machine.Clock(), &x.ahead[n]}, Rand: rand.New(rand.NewPCG(seed, uint64(owner))), Timing: x.timing,
				Objects: x.updates, Bytes: paper.DefaultBytes, GiveUp: func() bool { return x.over },
				OnExpired: func(w uint64) { x.expired[w] = struct{}{} }})
			return err
		}, x.note)
	}
	return nil
}

// leaseRates are what clients come to, in percent of their leases.
type leaseRates struct {
	expired float64 // leases that somebody found expired
	undone  float64 // transactions that somebody finished or aborted
}

// leaseShares counts what clients have done between two times, of which some leases were found expired.
func leaseShares(before, after paper.Stats, expired int) (leaseRates, error) {
	leases := after.Commits - before.Commits
	for i, k := range after.Aborts {
		leases += k - before.Aborts[i]
	}
	if leases == 0 {
		return leaseRates{}, errors.New("no transaction has ended")
	}
	share := func(n uint64) float64 { return percent * float64(n) / float64(leases) }
	return leaseRates{share(uint64(expired)), share(after.Undone + after.Finished - before.Undone - before.Finished)}, nil
}

// leaseRun is how long clients run: in some windows, before each of which the clocks are drawn. Their errors are normal.
type leaseRun struct {
	windows int
	window  time.Duration
	clock   time.Duration // standard deviation of the errors
}

// modelled runs the clients of a simulated memory node.
func (l *leaseLoad) modelled(r leaseRun, seed uint64) (leaseRates, error) {
	x, err := l.newLeaseWorld(seed)
	if x != nil {
		defer func() {
			for _, core := range x.cores {
				core.Kill()
			}
		}()
	}
	if err != nil {
		return leaseRates{}, err
	}
	before := x.sum()
	draw := rand.New(rand.NewPCG(seed, uint64(l.timing.Drift)))
	for n := range r.windows {
		for i := range x.ahead {
			x.ahead[i] = time.Duration(n+1)*leaseWindows + time.Duration(draw.NormFloat64()*float64(r.clock))
		}
		x.over = false
		x.world.After(picoseconds(r.window), func() { x.over = true })
		for i, w := range x.workers {
			source := rand.New(rand.NewPCG(seed, uint64(n<<16|i)))
			w.Submit("update", func(f *fiber.Fiber) error { return l.update(f, x.clients[i], source, func() {}) }, x.note)
		}
		if err := x.run(); err != nil {
			return leaseRates{}, err
		}
	}
	return leaseShares(before, x.sum(), len(x.expired))
}

// sum is that of all clients.
func (x *leaseWorld) sum() (sum paper.Stats) {
	for _, c := range x.clients {
		sum.Add(c.Stats())
	}
	return sum
}

// leaseFigure draws Figure 18 of what runs give.
type leaseFigure struct {
	r      *Run
	suffix string // of curves: how the numbers were made
	run    func(l *leaseLoad, seed uint64) (leaseRates, error)
	missed func() string // why a bound is exceeded
	done   int
	o      *Outcome
}

// drifts are those of (a), in milliseconds, and sizes the objects of a transaction of (b).
func (x *leaseFigure) drifts() []float64 {
	return pick(x.r, []float64{0, 1, 2, 3, 5, 8}, []float64{0, 5, 8})
}

func (x *leaseFigure) sizes() []float64 {
	return pick(x.r, []float64{20, 40, 60, 80}, []float64{5, 20})
}

const (
	leaseDrift  = 8 * time.Millisecond
	leaseOp     = 100 * time.Microsecond
	fewObjects  = 100
	manyObjects = 10_000
)

// means runs a load with all seeds.
func (x *leaseFigure) means(l *leaseLoad, total int) (expired, undone []float64, err error) {
	for seed := range x.r.Seeds {
		if err := x.r.step(x.done, total*x.r.Seeds); err != nil {
			return nil, nil, err
		}
		got, err := x.run(l, uint64(seed+1))
		if err != nil {
			return nil, nil, fmt.Errorf("%d objects, %d updates: %w", l.objects, l.updates, err)
		}
		expired, undone = append(expired, got.expired), append(undone, got.undone)
		x.done++
	}
	return expired, undone, nil
}

// single is (a): transactions of one object, by drift.
func (x *leaseFigure) single(total int) error {
	chart := report.Chart{Title: "(a) one object in a transaction", X: "drift of leases [ms]", Y: "leases expired [%]"}
	for _, objects := range []int{fewObjects, pick(x.r, manyObjects, manyObjects/10)} {
		curve := report.ChartCurve{Name: fmt.Sprintf("%d objects, %s", objects, x.suffix)}
		for _, ms := range x.drifts() {
			l := leaseLoad{objects: objects, updates: 1, timing: leaseTimes(time.Duration(ms)*time.Millisecond, leaseOp)}
			expired, undone, err := x.means(&l, total)
			if err != nil {
				return err
			}
			what := fmt.Sprintf("1 of %d objects, drift %g ms", objects, ms)
			n := number{what: what + ": leases expired", unit: "%", section: sixFour, digits: 3}
			switch ms {
			case 5:
				n.printed, n.limit, n.missed = "below 1", within(1), x.missed()
			case 8:
				n.printed, n.limit, n.missed = "0", within(0), x.missed()
			}
			x.o.Rows = append(x.o.Rows, n.seen(expired...),
				number{what: what + ": transactions ended by others", unit: "%", section: sixFour, digits: 3}.seen(undone...))
			curve.Points = append(curve.Points, [2]float64{ms, mean(expired)})
		}
		chart.Curves = append(chart.Curves, curve)
	}
	x.o.Charts = append(x.o.Charts, chart)
	return nil
}

// leaseRegulation is a pair of leases: of one length, and longer by each object.
type leaseRegulation struct {
	title       string
	fixed, each paper.Timing
	judged      bool
}

// many is (b): transactions of many objects.
func (x *leaseFigure) many(g *leaseRegulation, missed string, total int) error {
	chart := report.Chart{Title: g.title, X: "objects in a transaction", Y: "leases expired [%]"}
	for i, timing := range []paper.Timing{g.fixed, g.each} {
		name := [...]string{"without regulation", "with regulation"}[i]
		curve := report.ChartCurve{Name: name + ", " + x.suffix}
		for _, updates := range x.sizes() {
			l := leaseLoad{objects: pick(x.r, manyObjects, manyObjects/10), updates: int(updates), timing: timing}
			expired, _, err := x.means(&l, total)
			if err != nil {
				return err
			}
			n := number{what: fmt.Sprintf("%s, %g of %d objects: leases expired", name, updates, l.objects), unit: "%",
				section: sixFour, digits: 2}
			switch {
			case !g.judged:
				n.what = fmt.Sprintf("%s: %s", g.title, n.what)
			case i == 0 && updates == 20:
				n.printed, n.paper, n.limit = "0.1", 0.1, within(1)
			case i == 0 && updates == 80:
				n.printed, n.paper, n.limit, n.missed = "47.5", 47.5, within(10), missed
			case i == 1 && updates == 80:
				n.printed, n.paper, n.limit, n.missed = "0.4", 0.4, within(1), x.missed()
			}
			x.o.Rows = append(x.o.Rows, n.seen(expired...))
			curve.Points = append(curve.Points, [2]float64{updates, mean(expired)})
		}
		chart.Curves = append(chart.Curves, curve)
	}
	x.o.Charts = append(x.o.Charts, chart)
	return nil
}

// missesRegulation is why leases of one length are long enough here.
const missesRegulation = "a transaction locks all its objects in one round trip here, so that it holds 80 locks for much less " +
	"than 8 ms; the paper's locks them one after the other, in up to 100 us each. The rows with leases of 100 us show the same here"

// leaseExpiry is Figure 18, modelled.
func leaseExpiry(r *Run) (*Outcome, error) {
	single := leaseRun{windows: pick(r, 40, 4), window: pick(r, 300*time.Microsecond, 100*time.Microsecond), clock: clockError}
	long := leaseRun{windows: 1, window: pick(r, 10*time.Millisecond, 500*time.Microsecond), clock: clockError}
	short := leaseRun{windows: 1, window: pick(r, 2*time.Millisecond, 500*time.Microsecond)}
	x := &leaseFigure{r: r, suffix: "modelled", missed: func() string { return "" }, o: &Outcome{
		Conditions: fmt.Sprintf("preset %s, one memory node, %d clients on %d machines, all alive; before each of %d windows of %v "+
			"clocks are drawn, normal with a standard deviation of %v (NTP in a LAN; the paper has no number); (b) one window of %v; "+
			"objects of 8 bytes; %s", cx4, leaseClients, leaseMachines, single.windows, single.window, clockError, long.window,
			r.seedsText())}}
	how := single
	x.run = func(l *leaseLoad, seed uint64) (leaseRates, error) { return l.modelled(how, seed) }
	total := 2*len(x.drifts()) + 4*len(x.sizes())
	if err := x.single(total); err != nil {
		return nil, err
	}
	how = long
	if err := x.many(&leaseRegulation{"(b) many objects in a transaction, drift 8 ms", leaseTimes(leaseDrift, 0),
		leaseTimes(leaseDrift, leaseOp), true}, missesRegulation, total); err != nil {
		return nil, err
	}
	how = short
	return x.o, x.many(&leaseRegulation{"leases of 100 us, or for each object, clocks that agree", leaseTimes(leaseOp, 0),
		leaseTimes(0, leaseOp), false}, "", total)
}
