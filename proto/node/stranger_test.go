package node_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"drtmd/proto/node"
	"drtmd/verbs"
	"drtmd/verbs/rpc"
	"drtmd/verbs/shm"
)

// stranger is somebody on the fabric who is no member, with a UD queue pair of its own.
type stranger struct {
	ctx  *verbs.Context
	mr   *verbs.MR
	cq   *verbs.CQ
	qp   *verbs.QP
	rand *rand.Rand
	sent int
	ahs  map[verbs.GID]*verbs.AH
	pd   *verbs.PD
}

func newStranger(p verbs.Provider) (*stranger, error) {
	s := &stranger{rand: rand.New(rand.NewPCG(1, 2)), ahs: map[verbs.GID]*verbs.AH{}}
	var err error
	if s.ctx, err = p.Open(""); err != nil {
		return nil, err
	}
	if s.pd, err = s.ctx.AllocPD(); err != nil {
		return nil, err
	}
	if s.mr, err = s.pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{}); err != nil {
		return nil, err
	}
	if s.cq, err = s.ctx.CreateCQ(verbs.CQConfig{Depth: 64}); err != nil {
		return nil, err
	}
	if s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: verbs.UD, SendCQ: s.cq, RecvCQ: s.cq,
		SendDepth: 16, RecvDepth: 16, QKey: 17, Access: verbs.AccessAll}); err != nil {
		return nil, err
	}
	return s, s.qp.Connect(nil, verbs.ConnectAttr{})
}

// send sends a datagram of random bytes that knows what a thief of the address knows: the port's
// incarnation, at some offset.
func (s *stranger) send(to rpc.Address, qkey uint32) error {
	n := 1 + s.rand.IntN(1024)
	b := s.mr.Bytes()[:n]
	for i := range b {
		b[i] = byte(s.rand.Uint32() >> s.rand.IntN(24)) // small numbers are common
	}
	for at := 8 * s.rand.IntN(4); at+8 <= n; at += 8 * (1 + s.rand.IntN(8)) {
		binary.LittleEndian.PutUint64(b[at:], to.Incarnation)
	}
	ah := s.ahs[to.GID]
	if ah == nil {
		var err error
		if ah, err = s.pd.CreateAHTo(to.Endpoint); err != nil {
			return err
		}
		s.ahs[to.GID] = ah
	}
	wr := verbs.WR{Op: verbs.OpSend, NumSGE: 1, AH: ah.Handle(), Flags: verbs.FlagSignaled,
		SGE: [4]verbs.SGE{s.mr.SGE(0, n)}, RemoteQPN: to.QPN, RemoteQKey: qkey}
	if _, err := s.qp.PostSend([]verbs.WR{wr}); err != nil {
		return err
	}
	var wc [1]verbs.WC
	for range 1 << 20 {
		k, err := s.cq.Poll(wc[:])
		if err != nil {
			return err
		}
		if k == 1 {
			s.sent++
			return wc[0].Err()
		}
	}
	return fmt.Errorf("datagram %d: no completion", s.sent)
}

// TestStrangersDatagramsDoNoHarm while transactions run, with the queue key of a port and without:
// the run stays strictly serializable, and no queue pair breaks.
func TestStrangersDatagramsDoNoHarm(t *testing.T) {
	for _, c := range []struct {
		name    string
		qkey    func(a rpc.Address) uint32
		arrives bool
	}{
		{"with the queue key", func(a rpc.Address) uint32 { return a.QKey }, true},
		{"without it", func(a rpc.Address) uint32 { return a.QKey ^ 1<<5 }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			p := shm.New(shm.Options{Dir: dir})
			s, err := newStranger(p)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			var workers []*node.Worker
			runAndCheck(t, func(ctx2 context.Context, cfg node.Config) (*node.Cluster, error) {
				cluster, err := node.NewLocal(ctx2, node.LocalConfig{Config: cfg, Provider: p})
				if err != nil {
					return nil, err
				}
				workers = cluster.Workers()
				var ports []rpc.Address
				for _, m := range cluster.Members {
					ports = append(ports, m.Port(0))
				}
				wg.Go(func() {
					for ctx.Err() == nil {
						for _, a := range ports {
							if err := s.send(a, c.qkey(a)); err != nil {
								t.Error(err)
								return
							}
						}
						time.Sleep(20 * time.Microsecond) // the load needs a CPU, too
					}
				})
				return cluster, nil
			}, node.Config{Protocol: protocol(t, "drtm"), Workload: small(t, 3), Nodes: 3,
				Workers: 1, Fibers: 4, Seed: 7, Record: &node.Recording{}})
			cancel()
			wg.Wait()
			garbage := uint64(0)
			for _, w := range workers {
				for _, n := range w.Port.Stats.Garbage {
					garbage += n
				}
			}
			if s.sent == 0 || c.arrives != (garbage > 0) {
				t.Errorf("%d datagrams sent, %d dropped as garbage by the ports", s.sent, garbage)
			}
			if err := s.ctx.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
