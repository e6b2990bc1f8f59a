package drtm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// links is a chain that reads the first record and raises the others by one, a piece each.
type links struct {
	keys []proto.Key
	runs []int // of each piece, aborted attempts included
	// The piece brokenAt ends with err, if that is not nil.
	brokenAt int
	err      error
}

func (l *links) Execute(proto.Txn) error { return errors.New("it runs as a whole") }
func (l *links) Pieces() int             { return len(l.keys) }

func (l *links) PlanPiece(_ *fiber.Fiber, _ proto.Peeker, piece int, d *proto.Decl) error {
	mode := proto.ModeWrite
	if piece == 0 {
		mode = proto.ModeRead
	}
	d.Accesses, d.Groups = append(d.Accesses, proto.Access{Table: small, Mode: mode, Key: l.keys[piece]}), []uint32{1}
	return nil
}

func (l *links) ExecutePiece(tx proto.Txn, piece int) error {
	l.runs[piece]++
	if l.err != nil && piece == l.brokenAt {
		return l.err
	}
	b := value(small, 0)
	if err := tx.Read(small, l.keys[piece], b); err != nil || piece == 0 {
		return err
	}
	n, _ := number(b)
	return tx.Write(small, l.keys[piece], value(small, n+1))
}

func (l *links) AppendPieces(b []byte, from int) []byte {
	for _, k := range l.keys[from:] {
		b = binary.LittleEndian.AppendUint64(b, uint64(k))
	}
	return b
}

// Resume makes the rest of links.
func (*links) Resume(_ uint8, from int, parameters []byte) (proto.Chain, error) {
	l := &links{keys: make([]proto.Key, from), runs: make([]int, from+len(parameters)/8)}
	for ; len(parameters) > 0; parameters = parameters[8:] {
		l.keys = append(l.keys, proto.Key(binary.LittleEndian.Uint64(parameters)))
	}
	return l, nil
}

// TestALogKnowsWhatIsLeftOfAChain (§5.6): a chain that was cut off behind a piece that binds it is found by the next
// life of its engine, which runs the rest, and only that; one that was cut off before is not.
func TestALogKnowsWhatIsLeftOfAChain(t *testing.T) {
	raceskip.Processes(t)
	dir := filepath.Join(t.TempDir(), "run")
	keys := []proto.Key{keyOn(0, 1), keyOn(0, 2), keyOn(1, 3), keyOn(1, 4)}
	kept := func(attach bool) host {
		return host{"shm", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
			return node.NewLocal(ctx, node.LocalConfig{Config: c, Provider: shm.New(shm.Options{Dir: dir}), Attach: attach,
				Keep: func(n proto.NodeID) string { return fmt.Sprintf("node%d", n) }})
		}}
	}
	durable := settings{node: func(cfg *node.Config) {
		cfg.Options = option.Settings{"durable": "true", "chopped": "true"}
	}}
	broken := errors.New("the piece is broken")
	for _, x := range []struct{ brokenAt, left int }{{0, 0}, {1, 0}, {2, 2}, {3, 1}} {
		t.Run(fmt.Sprintf("piece %d fails", x.brokenAt), func(t *testing.T) {
			c := start(t, kept(false), durable)
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
				run := proto.Runner{Engine: e, Rand: rand.New(rand.NewPCG(1, 2))}
				p := &links{keys: keys, runs: make([]int, len(keys)), brokenAt: x.brokenAt, err: broken}
				res, err := run.Run(f, &proto.Decl{Kind: 1}, p)
				if want := x.left > 0; (res.Outcome == proto.Unknown) != want || errors.Is(err, proto.ErrUnknownOutcome) != want ||
					!errors.Is(err, broken) {
					t.Errorf("a chain that was cut off is %v, %v", res.Outcome, err)
				}
				return nil
			})
			if err := errors.Join(c.Stop(), c.Close()); err != nil {
				t.Fatal(err)
			}
			left := &resumed{}
			again := durable
			again.node = func(cfg *node.Config) {
				durable.node(cfg)
				cfg.Workload = left
			}
			c = start(t, kept(true), again)
			if left.pieces != x.left {
				t.Errorf("%d pieces are left, want %d", left.pieces, x.left)
			}
			for i, k := range keys {
				b := value(small, 0)
				if err := c.Read(small, k, b); err != nil {
					t.Fatal(err)
				}
				want := uint64(initial)
				if i > 0 && x.left > 0 {
					want++
				}
				if v, _ := number(b); v != want {
					t.Errorf("record %d is %d, want %d", i, v, want)
				}
			}
			if err := errors.Join(c.Stop(), c.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// resumed are tables whose chains are links. It notes how many pieces were left.
type resumed struct {
	tables
	pieces int
}

func (r *resumed) Resume(kind uint8, from int, parameters []byte) (proto.Chain, error) {
	r.pieces += len(parameters) / 8
	return (*links)(nil).Resume(kind, from, parameters)
}

// TestTheBarrierIsOfOneMachine (§4.2): a subscriber that accesses a record of another one is refused, and one that does
// not is let in, and leaves.
func TestTheBarrierIsOfOneMachine(t *testing.T) {
	var e *drtm.Engine
	c := start(t, onSim, settings{drtm: func(cfg *drtm.Config) { cfg.Chopped = true }})
	c.on(0, func(f *fiber.Fiber, engine *drtm.Engine) error {
		e = engine
		for _, x := range []struct {
			node proto.NodeID
			want error
		}{{1, drtm.ErrElsewhere}, {0, nil}, {0, nil}} {
			d := declare(writing(small, keyOn(x.node, 1)))
			d.AtBarrier = proto.Subscribes
			err := attempt(f, e, d, 0, func(tx proto.Txn) error { return tx.Write(small, keyOn(x.node, 1), value(small, 7)) })
			if !errors.Is(err, x.want) {
				t.Errorf("a record of node %d: %v, want %v", x.node, err, x.want)
			}
		}
		return nil
	})
	if !e.Env.Barrier.Idle() {
		t.Error("somebody is still at the barrier")
	}
	c.verify()
}
