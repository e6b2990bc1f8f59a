package reproduce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// Micro-benchmarks of a NIC with cores, run by the code that carries programs: Figures 2 to 4 of Xenic.

// Kinds of messages.
const (
	nicRequest uint8 = iota + 1
	nicAnswer
)

// nicNode is a server with its NIC's cores and some threads of its host.
type nicNode struct {
	index  int
	board  *sim.Board
	ctx    *verbs.Context
	memory *verbs.MR // of the host
	cores  []*smartnic.Core
	ports  []*smartnic.Port
	hosts  []*fiber.Worker
	runs   []*fiber.Core
}

// nicRig is servers in a world.
type nicRig struct {
	world *sim.World
	cost  *sim.CostModel
	nodes []*nicNode
}

const liquidio3 = "liquidio3"

// nicMemory is the host memory that DMAs go to: a region for each core.
const nicMemory = 1 << 20

// newNICRig makes so many servers, each with so many cores of its NIC and threads of its host at work.
func newNICRig(nodes, cores, threads int, batching smartnic.Batching) (*nicRig, error) {
	cost, err := sim.Preset(liquidio3)
	if err != nil {
		return nil, err
	}
	return newNICRigOf(cost, nodes, cores, threads, batching)
}

// newNICRigOf is newNICRig with another cost model.
func newNICRigOf(cost *sim.CostModel, nodes, cores, threads int, batching smartnic.Batching) (r *nicRig, err error) {
	r = &nicRig{cost: cost}
	if r.world, err = sim.New(sim.Config{Seed: 1, Cost: cost, KeepEvents: -1}); err != nil {
		return nil, err
	}
	for range nodes {
		n, err := r.world.AddNode(sim.NodeConfig{})
		if err != nil {
			return nil, err
		}
		m := &nicNode{index: n.Index()}
		r.nodes = append(r.nodes, m)
		if err := m.open(n, cores, threads, batching); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

func (m *nicNode) open(n *sim.Node, cores, threads int, batching smartnic.Batching) (err error) {
	if m.ctx, err = n.Open(); err != nil {
		return err
	}
	pd, err := m.ctx.AllocPD()
	if err != nil {
		return err
	}
	if m.memory, err = pd.AllocMR(nicMemory, verbs.AccessLocalWrite, verbs.MROptions{LineOwners: 1}); err != nil {
		return err
	}
	if m.board, err = n.AttachBoard(); err != nil {
		return err
	}
	worker := func(tl *sim.Timeline) (*fiber.Worker, error) {
		run := fiber.NewCore(tl)
		m.runs = append(m.runs, run)
		return run.NewWorker(fiber.WorkerConfig{PD: pd})
	}
	for i := range cores {
		w, err := worker(m.board.Timeline(i))
		if err != nil {
			return err
		}
		c, err := smartnic.NewCore(w, m.board, smartnic.CoreConfig{Node: m.index, Index: i, Batching: batching})
		if err != nil {
			return err
		}
		m.cores = append(m.cores, c)
	}
	for i := range threads {
		w, err := worker(n.Timeline(i))
		if err != nil {
			return err
		}
		p, err := smartnic.NewPort(w, m.board, i, batching)
		if err != nil {
			return err
		}
		m.ports, m.hosts = append(m.ports, p), append(m.hosts, w)
	}
	return nil
}

// close ends what runs.
func (r *nicRig) close() error {
	var all error
	for _, m := range r.nodes {
		for _, run := range m.runs {
			run.Kill()
			all = errors.Join(all, run.Close())
		}
		if m.ctx != nil {
			all = errors.Join(all, m.ctx.Close())
		}
	}
	return all
}

// rate runs the world and gives what a counter counts in a second, after a while for it to fill up.
func (r *nicRig) rate(count *uint64, warm, span time.Duration) (float64, error) {
	err := r.world.RunUntil(sim.Of(warm))
	before := *count
	if err == nil {
		err = r.world.RunUntil(sim.Of(warm + span))
	}
	after := *count
	for _, m := range r.nodes {
		for _, c := range m.cores {
			err = errors.Join(err, c.Worker().Fenced())
		}
		for _, w := range m.hosts {
			err = errors.Join(err, w.Fenced())
		}
	}
	return float64(after-before) / span.Seconds(), errors.Join(err, r.close())
}

// Spans of the measurements.
const (
	nicWarm = 60 * time.Microsecond
	nicSpan = 100 * time.Microsecond
)

// echoes is the rate of RPCs of 80 B that a server answers to five others (§3.3): on 16 NIC cores, or on 16 threads of
// its host, to which its NIC passes them on.
func echoes(onHost bool) (float64, error) {
	const clients, servers, window, bytes = 5, 16, 32, 80 - 4
	r, err := newNICRig(1+clients, 24, servers, smartnic.Bursts)
	if err != nil {
		return 0, err
	}
	server := r.nodes[0]
	var count uint64
	payload := make([]byte, bytes)
	for i, c := range server.cores {
		switch {
		case !onHost:
			c.Handle(nicRequest, func(m *smartnic.Message) {
				count++
				c.Send(m.From, int(m.Sender), nicAnswer, m.Payload)
			})
		default:
			c.Handle(nicRequest, func(m *smartnic.Message) {
				binary.LittleEndian.PutUint16(payload, uint16(m.From)<<8|uint16(m.Sender))
				c.SendHost(i%servers, nicRequest, payload)
			})
			c.Handle(nicAnswer, func(m *smartnic.Message) {
				back := binary.LittleEndian.Uint16(m.Payload)
				c.Send(int(back>>8), int(back&0xff), nicAnswer, m.Payload)
			})
		}
	}
	for _, p := range server.ports {
		p.Handle(nicRequest, func(m *smartnic.Message) {
			count++
			p.Send(int(m.Sender), nicAnswer, m.Payload)
		})
	}
	used := servers
	if onHost {
		used = len(server.cores)
	}
	for n, client := range r.nodes[1:] {
		for i, c := range client.cores {
			to := (n*len(client.cores) + i) % used
			request := make([]byte, bytes)
			c.Handle(nicAnswer, func(*smartnic.Message) { c.Send(0, to, nicRequest, request) })
			for range window {
				c.Send(0, to, nicRequest, request)
			}
			c.Worker().Wake()
		}
	}
	return r.rate(&count, nicWarm, nicSpan)
}

// Parts of a write.
const (
	writeHeader = 12   // number 4, address 8
	writeWindow = 4096 // under way from a host, if they are gathered; otherwise a tenth
)

// writes is the rate of writes of some bytes that the threads of a host, by their NIC, make to the memory of another NIC,
// or of its host (§3.4).
func writes(bytes int, toHost bool, batching smartnic.Batching) (float64, error) {
	r, err := newNICRig(2, 24, 24, batching)
	if err != nil {
		return 0, err
	}
	source, target := r.nodes[0], r.nodes[1]
	var count uint64
	var memory []byte
	if memory, err = target.board.Alloc(nicMemory); err != nil {
		return 0, errors.Join(err, r.close())
	}
	window := writeWindow / len(source.ports)
	if batching == smartnic.Separate {
		window /= 10
	}
	for i, c := range source.cores {
		c.Handle(nicRequest, func(m *smartnic.Message) { c.Send(1, i, nicRequest, m.Payload) })
		c.Handle(nicAnswer, func(m *smartnic.Message) { c.SendHost(i, nicAnswer, m.Payload) })
	}
	for _, c := range target.cores {
		if !toHost {
			c.Handle(nicRequest, func(m *smartnic.Message) {
				copy(memory[binary.LittleEndian.Uint64(m.Payload[4:]):], m.Payload[writeHeader:])
				c.Send(0, int(m.Sender), nicAnswer, m.Payload[:4])
			})
			continue
		}
		writeToHost(c, target.memory, window, bytes)
	}
	for i, p := range source.ports {
		request := make([]byte, writeHeader+bytes)
		binary.LittleEndian.PutUint64(request[4:], uint64(i)*nicMemory/uint64(len(source.ports))&^63)
		p.Handle(nicAnswer, func(*smartnic.Message) {
			count++
			p.Send(i, nicRequest, request)
		})
		for range window {
			p.Send(i, nicRequest, request)
		}
		source.hosts[i].Wake()
	}
	return r.rate(&count, nicWarm, nicSpan)
}

// writeToHost has a core write what it is sent to the host's memory by DMA, and answer behind the completion.
func writeToHost(c *smartnic.Core, memory *verbs.MR, window, bytes int) {
	type write struct {
		transfer smartnic.Transfer
		buffer   []byte
		from     int
		sender   uint8
		number   [4]byte
	}
	ring := make([]write, window)
	begun, ended := 0, 0
	var more fiber.Cond
	c.Handle(nicRequest, func(m *smartnic.Message) {
		w := &ring[begun%window]
		begun++
		w.from, w.sender, w.number = m.From, m.Sender, [4]byte(m.Payload)
		w.buffer = append(w.buffer[:0], m.Payload[writeHeader:writeHeader+bytes]...)
		c.StartWrite(&w.transfer, memory.RKey(), int(binary.LittleEndian.Uint64(m.Payload[4:])), w.buffer)
		more.Signal()
	})
	c.Worker().Go("answers", nil, func(f *fiber.Fiber) error {
		for {
			for ended == begun {
				if err := more.Wait(f, 0); err != nil {
					return err
				}
			}
			w := &ring[ended%window]
			if err := w.transfer.Await(f); err != nil {
				return err
			}
			ended++
			c.Send(w.from, int(w.sender), nicAnswer, w.number[:])
		}
	})
	c.Worker().Wake()
}

// dmas is the rate of DMAs of some bytes on eight cores, each with its queue (§3.5) and so many vectors under way, and
// the time of the first vector.
func dmas(bytes int, write bool, batching smartnic.Batching, vectors int) (perQueue float64, first time.Duration, err error) {
	const queues = 8
	r, err := newNICRig(1, queues, 0, batching)
	if err != nil {
		return 0, 0, err
	}
	m := r.nodes[0]
	vector := 1
	if batching != smartnic.Separate {
		vector = m.board.MaxVector()
	}
	var count uint64
	for i, c := range m.cores {
		for v := range vectors {
			c.Worker().Submit(fmt.Sprintf("vector %d", v), func(f *fiber.Fiber) error {
				transfers, buffer := make([]smartnic.Transfer, vector), make([]byte, bytes)
				for {
					begin := f.Now()
					for t := range transfers {
						at := (i*vectors + v) << 10
						if write {
							c.StartWrite(&transfers[t], m.memory.RKey(), at, buffer)
						} else {
							c.StartRead(&transfers[t], m.memory.RKey(), at, buffer)
						}
					}
					for t := range transfers {
						if err := transfers[t].Await(f); err != nil {
							return err
						}
						count++
					}
					if first == 0 {
						first = f.Now() - begin
					}
				}
			}, nil)
		}
	}
	rate, err := r.rate(&count, nicWarm, nicSpan)
	return rate / queues, first, err
}
