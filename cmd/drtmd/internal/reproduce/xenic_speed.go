package reproduce

import (
	"errors"
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

const (
	nicBound     = 0.10
	twoAndThree  = "§3.2"
	threeThree   = "§3.3"
	threeFour    = "§3.4"
	threeFive    = "§3.5"
	latencyBytes = 256
	aMillion     = 1e6
)

// nicOp is what a request asks of the NIC that it comes to.
type nicOp uint8

const (
	opNothing nicOp = iota + 1
	opRead
	opWrite
	opHost // its host is to answer
)

// nicLatency is the time of a round trip with 256 B, from a NIC core or from its host.
func nicLatency(op nicOp, fromHost bool) (time.Duration, error) {
	r, err := newNICRig(2, 1, 1, smartnic.Gathered)
	if err != nil {
		return 0, err
	}
	source, target := r.nodes[0], r.nodes[1]
	near, far := source.cores[0], target.cores[0]
	buffer, payload := make([]byte, latencyBytes), make([]byte, latencyBytes)
	far.Handle(nicRequest, func(*smartnic.Message) {
		if op == opNothing {
			far.Send(0, 0, nicAnswer, buffer)
			return
		}
		if op == opHost {
			far.SendHost(0, nicRequest, buffer)
			return
		}
		far.Worker().Go("dma", nil, func(f *fiber.Fiber) error {
			var x smartnic.Transfer
			if op == opRead {
				far.StartRead(&x, target.memory.RKey(), 0, buffer)
			} else {
				far.StartWrite(&x, target.memory.RKey(), 0, buffer)
			}
			err := x.Await(f)
			far.Send(0, 0, nicAnswer, buffer)
			return err
		})
	})
	far.Handle(nicAnswer, func(m *smartnic.Message) { far.Send(0, 0, nicAnswer, m.Payload) })
	target.ports[0].Handle(nicRequest, func(m *smartnic.Message) { target.ports[0].Send(0, nicAnswer, m.Payload) })
	begin, end := sim.Time(0), sim.Time(0)
	if fromHost {
		near.Handle(nicRequest, func(m *smartnic.Message) { near.Send(1, 0, nicRequest, m.Payload) })
		near.Handle(nicAnswer, func(m *smartnic.Message) { near.SendHost(0, nicAnswer, m.Payload) })
		source.ports[0].Handle(nicAnswer, func(*smartnic.Message) { end = r.world.Now() })
		source.hosts[0].Submit("ask", func(*fiber.Fiber) error {
			begin = r.world.Now()
			source.ports[0].Send(0, nicRequest, payload)
			return nil
		}, nil)
	} else {
		near.Handle(nicAnswer, func(*smartnic.Message) { end = r.world.Now() })
		near.Worker().Submit("ask", func(*fiber.Fiber) error {
			begin = r.world.Now()
			near.Send(1, 0, nicRequest, payload)
			return nil
		}, nil)
	}
	err = errors.Join(r.world.Run(), r.close())
	return (end - begin).Duration(), err
}

// rdmaLatency is that of a verb on a ConnectX-5, in microseconds.
func rdmaLatency(op verbs.Opcode) (float64, error) {
	cost, err := sim.Preset(cx5)
	if err != nil {
		return 0, err
	}
	l, err := scenario.NewLoad(scenario.LoadConfig{Cost: cost, Op: op, Bytes: latencyBytes, Nodes: 1, QPs: 1, Depth: 1})
	if err != nil {
		return 0, err
	}
	rate, err := l.Rate(50*sim.Microsecond, 1000*sim.Microsecond)
	return 1e6 / rate, err
}

// xenicFigure2 has latencies. The text prints none, so what is judged is their order.
func xenicFigure2(*Run) (*Outcome, error) {
	o := &Outcome{Conditions: fmt.Sprintf("presets %s and %s, %d B, nothing else under way; nothing is drawn, so there are "+
		"no seeds", liquidio3, cx5, latencyBytes)}
	got := map[string]float64{}
	for _, from := range []struct {
		name string
		host bool
	}{{"host", true}, {"NIC", false}} {
		for _, op := range []struct {
			name string
			op   nicOp
		}{{"NIC RPC", opNothing}, {"read", opRead}, {"write", opWrite}, {"host RPC", opHost}} {
			d, err := nicLatency(op.op, from.host)
			if err != nil {
				return nil, err
			}
			name := op.name + " from the " + from.name
			got[name] = d.Seconds() * aMillion
			o.Rows = append(o.Rows, number{what: name, unit: "us", digits: 2}.seen(got[name]))
		}
	}
	for name, op := range map[string]verbs.Opcode{"READ": verbs.OpRead, "WRITE": verbs.OpWrite} {
		us, err := rdmaLatency(op)
		if err != nil {
			return nil, err
		}
		got[name] = us
	}
	for _, name := range []string{"READ", "WRITE"} {
		o.Rows = append(o.Rows, number{what: "ConnectX-5 " + name, unit: "us", digits: 2}.seen(got[name]))
	}
	order := func(what string, less, more float64) {
		ours := "yes"
		if less >= more {
			ours = "no"
		}
		o.Rows = append(o.Rows, word(what, twoAndThree, "yes", ours, ""))
	}
	order("READ is faster than a read from the host", got["READ"], got["read from the host"])
	order("WRITE is faster than a write from the host", got["WRITE"], got["write from the host"])
	order("RPC of NICs is faster than anything over PCIe", got["NIC RPC from the NIC"], min(got["read from the NIC"],
		got["write from the NIC"], got["host RPC from the NIC"], got["NIC RPC from the host"], got["READ"], got["WRITE"]))
	order("host RPCs are the slowest of either source", max(got["NIC RPC from the host"], got["read from the host"],
		got["write from the host"]), got["host RPC from the host"])
	return o, nil
}

// xenicFigure3 has rates of writes, with and without batching, and of RPCs.
func xenicFigure3(r *Run) (*Outcome, error) {
	sizes := pick(r, []int{16, 32, 64, 128, 256}, []int{16, 64, 256})
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, one host writes to another server; 16 threads or NIC cores of a server "+
		"echo RPCs of five others, the packets of a pass in one burst over PCIe; CX5: preset %s; nothing is drawn, so there are "+
		"no seeds", liquidio3, cx5)}
	done, total := 0, 2+5*len(sizes)
	step := func() error { done++; return r.step(done-1, total) }
	for _, x := range []struct {
		what, printed string
		paper         float64
		host          bool
		reading       string
	}{{"RPCs of the host", "23.0", 23.0, true, "queue-burst and queue-packet are derived from it and from the unbatched writes"},
		{"RPCs of the NIC", "71.8", 71.8, false, "receive and send are derived from it; the result is that nothing else limits"}} {
		if err := step(); err != nil {
			return nil, err
		}
		rate, err := echoes(x.host)
		if err != nil {
			return nil, err
		}
		o.Rows = append(o.Rows, number{what: x.what, unit: "M/s", section: threeThree, printed: x.printed, paper: x.paper,
			digits: 1, limit: share(nicBound), reading: x.reading}.seen(rate/aMillion))
	}
	most := map[bool]float64{}
	for _, toHost := range []bool{false, true} {
		name := map[bool]string{false: "NIC memory", true: "host memory"}[toHost]
		chart := report.Chart{Title: map[bool]string{false: "(a) ", true: "(b) "}[toHost] + name, X: "bytes written",
			Y: "writes [M/s]", LogX: true, LogY: true}
		curves := map[smartnic.Batching]report.ChartCurve{}
		rates := map[smartnic.Batching][]float64{}
		for _, b := range []smartnic.Batching{smartnic.Separate, smartnic.Gathered} {
			c := report.ChartCurve{Name: map[smartnic.Batching]string{smartnic.Separate: "one by one, modelled",
				smartnic.Gathered: "batched, modelled"}[b]}
			for _, bytes := range sizes {
				if err := step(); err != nil {
					return nil, err
				}
				rate, err := writes(bytes, toHost, b)
				if err != nil {
					return nil, err
				}
				rates[b] = append(rates[b], rate/aMillion)
				c.Points = append(c.Points, [2]float64{float64(bytes), rate / aMillion})
			}
			curves[b] = c
			chart.Curves = append(chart.Curves, c)
		}
		for i, bytes := range sizes {
			alone := rates[smartnic.Separate][i]
			o.Rows = append(o.Rows, number{what: fmt.Sprintf("writes of %d B to %s, one by one", bytes, name), unit: "M/s",
				section: threeFour, printed: "9.0 to 10.4", paper: min(max(alone, 9.0), 10.4), digits: 1, limit: share(nicBound),
				reading: "the queue from the host limits"}.seen(alone))
			most[toHost] = max(most[toHost], rates[smartnic.Gathered][i]/alone)
		}
		o.Charts = append(o.Charts, chart)
	}
	for _, x := range []struct {
		what, printed string
		paper         float64
		host          bool
		reading       string
	}{{"batching, NIC memory: up to", "22.2", 22.2, false, "at 16 B; PCIe of the source limits, a message has 16 B of header"},
		{"batching, host memory: up to", "7.0", 7.0, true, "at 16 B; eight queues of the DMA engine limit, each with 8.7 M/s: " +
			"if that were all of the engine, batching would gain nothing"}} {
		o.Rows = append(o.Rows, number{what: x.what, unit: "times", section: threeFour, printed: x.printed, paper: x.paper,
			digits: 1, limit: share(nicBound), reading: x.reading}.seen(most[x.host]))
	}
	return o, xenicFigure3RDMA(o, sizes, step)
}

// xenicFigure3RDMA adds the WRITEs of a ConnectX-5.
func xenicFigure3RDMA(o *Outcome, sizes []int, step func() error) error {
	cost, err := sim.Preset(cx5)
	if err != nil {
		return err
	}
	curve := report.ChartCurve{Name: "ConnectX-5 WRITE, modelled"}
	for _, bytes := range sizes {
		if err := step(); err != nil {
			return err
		}
		l, err := scenario.NewLoad(scenario.LoadConfig{Cost: cost, Op: verbs.OpWrite, Bytes: bytes, Nodes: 1, QPs: 8, Depth: 128})
		if err != nil {
			return err
		}
		rate, err := l.Rate(50*sim.Microsecond, 200*sim.Microsecond)
		if err != nil {
			return err
		}
		rate /= aMillion
		curve.Points = append(curve.Points, [2]float64{float64(bytes), rate})
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("CX5 WRITEs of %d B", bytes), unit: "M/s", section: threeFour,
			printed: "13.5 to 15.0", paper: min(max(rate, 13.5), 15.0), digits: 1, limit: share(nicBound),
			reading: "the preset's NIC carries out 15 M/s"}.seen(rate))
	}
	for i := range o.Charts {
		o.Charts[i].Curves = append(o.Charts[i].Curves, curve)
	}
	return nil
}

// xenicFigure4 has rates and latencies of DMA.
func xenicFigure4(r *Run) (*Outcome, error) {
	sizes := pick(r, []int{8, 16, 32, 64, 128, 256}, []int{16, 64, 256})
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, eight cores, each with a queue of the DMA engine; nothing is drawn, so "+
		"there are no seeds", liquidio3)}
	chart := report.Chart{Title: "(a) throughput", X: "bytes", Y: "DMAs of a queue [M/s]", LogX: true}
	most := 0.0
	done, total := 0, 4*len(sizes)+4
	for _, write := range []bool{false, true} {
		what := map[bool]string{false: "reads", true: "writes"}[write]
		first := map[smartnic.Batching]time.Duration{}
		for _, b := range []smartnic.Batching{smartnic.Separate, smartnic.Bursts} {
			vectors := map[smartnic.Batching]int{smartnic.Separate: 64, smartnic.Bursts: 16}[b]
			c := report.ChartCurve{Name: what + map[smartnic.Batching]string{smartnic.Separate: " one by one, modelled",
				smartnic.Bursts: " in vectors of 15, modelled"}[b]}
			for _, bytes := range sizes {
				if err := r.step(done, total); err != nil {
					return nil, err
				}
				rate, _, err := dmas(bytes, write, b, vectors)
				if err != nil {
					return nil, err
				}
				done++
				most = max(most, rate/aMillion)
				c.Points = append(c.Points, [2]float64{float64(bytes), rate / aMillion})
			}
			chart.Curves = append(chart.Curves, c)
			_, d, err := dmas(sizes[0], write, b, 1)
			if err != nil {
				return nil, err
			}
			first[b] = d
		}
		printed, paper := "1295", 1295.0
		if write {
			printed, paper = "570", 570.0
		}
		o.Rows = append(o.Rows, number{what: what + ": completion of one", unit: "ns", section: threeFive, printed: printed,
			paper: paper, digits: 0, limit: share(nicBound), reading: "the preset has it; the result is that nothing is added"}.
			seen(float64(first[smartnic.Separate].Nanoseconds())),
			number{what: what + ": completion of a vector over one's", section: threeFive, printed: "1", paper: 1, digits: 2,
				limit: share(nicBound), reading: `"full vectors do not increase submission or completion latency"`}.
				seen(float64(first[smartnic.Bursts])/float64(first[smartnic.Separate])))
	}
	o.Rows = append([]report.ComparedRow{number{what: "most DMAs of a queue", unit: "M/s", section: threeFive, printed: "8.7",
		paper: 8.7, digits: 2, limit: share(nicBound), reading: "of one of eight queues: see figure-3"}.seen(most)}, o.Rows...)
	o.Charts = []report.Chart{chart}
	return o, nil
}
