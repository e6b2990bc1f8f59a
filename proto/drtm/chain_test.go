package drtm_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/verbs/fiber"
)

// links is a chain that reads the first record and raises the others by one, a piece each.
type links struct {
	keys []proto.Key
	runs []int // of each piece, aborted attempts included
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
	b := value(small, 0)
	if err := tx.Read(small, l.keys[piece], b); err != nil || piece == 0 {
		return err
	}
	n, _ := number(b)
	return tx.Write(small, l.keys[piece], value(small, n+1))
}

func (l *links) AppendPieces(b []byte, from int) []byte {
	for _, k := range l.keys[from:] {
		b = append(b, byte(k))
	}
	return b
}

// TestALogKnowsWhatIsLeftOfAChain (§5.6): before each attempt of a piece it is told what is to be done behind it; and
// what was cut off is done by a chain that begins there.
func TestALogKnowsWhatIsLeftOfAChain(t *testing.T) {
	each(t, func(t *testing.T, h host) {
		broken := errors.New("the log is broken")
		var told []string
		cutAt := 2
		c := start(t, h, settings{drtm: func(cfg *drtm.Config) {
			cfg.Chopped = true
			if cfg.Node != 0 {
				return
			}
			cfg.ChainLog = func(_ *fiber.Fiber, l *proto.Link) error {
				told = append(told, fmt.Sprintf("%d of %d, %v, left %v", l.Piece, l.Pieces, l.Binding, l.Rest))
				if l.Piece == cutAt {
					return broken
				}
				return nil
			}
		}})
		keys := []proto.Key{keyOn(0, 1), keyOn(0, 2), keyOn(0, 3), keyOn(1, 4)}
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			run := proto.Runner{Engine: e, Rand: rand.New(rand.NewPCG(1, 2))}
			p := &links{keys: keys, runs: make([]int, len(keys))}
			var before [4]uint64
			for i, k := range keys {
				v, err := peek(f, e, small, k)
				if err != nil {
					return err
				}
				before[i] = v
			}
			told = told[:0]
			res, err := run.Run(f, &proto.Decl{Kind: 1}, p)
			if res.Outcome != proto.Unknown || !errors.Is(err, proto.ErrUnknownOutcome) || !errors.Is(err, broken) {
				t.Errorf("a chain that was cut off is %v, %v", res.Outcome, err)
			}
			want := []string{"0 of 4, false, left []", "1 of 4, false, left [3 4]", "2 of 4, true, left [4]"}
			if !slices.Equal(told, want) {
				t.Errorf("%q, want %q", told, want)
			}
			cutAt, told = -1, nil
			if res, err = run.Resume(f, &proto.Decl{Kind: 1}, p, 2); res.Outcome != proto.Committed || err != nil {
				t.Errorf("the rest is %v, %v", res.Outcome, err)
			}
			told = slices.Compact(told) // other attempts say the same: the peek has leased the last record
			if want := []string{"2 of 4, true, left [4]", "3 of 4, true, left []"}; !slices.Equal(told, want) {
				t.Errorf("%q, want %q", told, want)
			}
			if want := []int{1, 1, 1, 1}; !slices.Equal(p.runs, want) {
				t.Errorf("pieces ran %v times", p.runs)
			}
			for i, k := range keys {
				v, err := peek(f, e, small, k)
				if err != nil {
					return err
				}
				raised := before[i]
				if i > 0 {
					raised++
				}
				if v != raised {
					t.Errorf("record %d is %d, want %d", i, v, raised)
				}
			}
			return nil
		})
	})
}
