package workload

import (
	"errors"
	"time"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// defaultYield is how many transactions a fiber runs before it lets others run. Transactions on
// local records wait for nothing: without this, one fiber would keep the thread to itself, and
// the worker would not answer its peers. A switch costs as much as a few such transactions.
const defaultYield = 16

// Counts are what became of the transactions of one worker, by Decl.Kind. Its thread writes them.
type Counts struct {
	Kinds [MaxKinds]KindCounts
}

// KindCounts are those of one type of transaction.
type KindCounts struct {
	Outcomes [proto.OutcomeEnd]uint64
	Attempts uint64
	Aborts   [proto.ReasonEnd]uint64 // attempts, by reason
}

// ErrNoClient: a Driver without a client.
var ErrNoClient = errors.New("no client to draw transactions: the workload's NewClient returned nil, " +
	"which it must not")

// Watch follows the transactions of fibers; it is called on their threads.
type Watch interface {
	// Begun: a transaction that was drawn begins. Ended: it has its outcome, after all of its attempts.
	Begun(f *fiber.Fiber)
	Ended(f *fiber.Fiber, o proto.Outcome)
}

// Driver runs a client's transactions on a fiber. All of it belongs to the fiber's worker.
type Driver struct {
	Runner proto.Runner
	Client Client
	Counts *Counts // may be shared by the worker's fibers
	// Over ends the run after the transaction during which it becomes true. It is asked before
	// each one and must be quick.
	Over func() bool
	// YieldEvery is how many transactions run before the other fibers do; 0 = 16.
	YieldEvery int
	// SampleEvery has the latency of one transaction in so many measured, retries included;
	// 0 = none. A clock reading costs more than a local transaction.
	SampleEvery int
	// Latency takes a sample.
	Latency func(kind uint8, d time.Duration)
	// ChargePs is the CPU time in picoseconds that drawing a transaction takes in the simulator.
	ChargePs int64
	// Watch, if not nil, follows each transaction.
	Watch Watch

	yieldIn, sampleIn int
}

// Run runs transactions until Over. Aborted transactions, those of unknown outcome, and programs
// that fail with an error of their own are counted; what ends the run early is that error, and
// the end of the fiber. It does not allocate.
func (d *Driver) Run(f *fiber.Fiber) error {
	if d.Client == nil {
		return ErrNoClient
	}
	d.yieldIn, d.sampleIn = d.yieldEvery(), d.SampleEvery
	for !d.Over() {
		if err := d.one(f); err != nil {
			return err
		}
		if d.yieldIn--; d.yieldIn == 0 {
			d.yieldIn = d.yieldEvery()
			if err := f.Rest(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) yieldEvery() int {
	if d.YieldEvery > 0 {
		return d.YieldEvery
	}
	return defaultYield
}

// one runs one transaction to its outcome.
func (d *Driver) one(f *fiber.Fiber) error {
	if d.ChargePs > 0 {
		f.Charge(d.ChargePs)
	}
	decl, program := d.Client.Next()
	kind := &d.Counts.Kinds[decl.Kind]
	d.Runner.Aborts = &kind.Aborts
	sampled := false
	var begin time.Duration
	if d.SampleEvery > 0 {
		if d.sampleIn--; d.sampleIn == 0 {
			d.sampleIn, sampled = d.SampleEvery, true
			begin = f.Now()
		}
	}
	if d.Watch != nil {
		d.Watch.Begun(f)
	}
	result, err := d.Runner.Run(f, decl, program)
	if d.Watch != nil {
		d.Watch.Ended(f, result.Outcome)
	}
	d.Client.Done(result.Outcome)
	kind.Outcomes[result.Outcome]++
	kind.Attempts += uint64(result.Attempts)
	if sampled && result.Outcome == proto.Committed {
		d.Latency(decl.Kind, f.Now()-begin)
	}
	if err == nil || result.Outcome == proto.Unknown || proto.AbortReason(err) != 0 {
		return f.Err()
	}
	return errors.Join(err, f.Err())
}
