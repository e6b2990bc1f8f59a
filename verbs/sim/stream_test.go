package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"drtmd/verbs"
)

// stream posts a random sequence of operations on one QP, through lost and late messages and
// late receives, and knows what the peer must have seen.
type stream struct {
	a, b    *side
	r       *rand.Rand
	posted  uint64 // operations, numbered from 1
	sends   uint64
	adds    uint64
	addsOf  []uint64 // adds among the first i operations
	sendsOf []uint64
	done    uint64 // operations known to have succeeded: the last signaled one
	failed  bool
	got     uint64 // messages received
}

const (
	streamWord = 0  // the number of the last WRITE
	streamSum  = 64 // how often FAA added 1
)

func (s *stream) post() {
	s.posted++
	binary.NativeEndian.PutUint64(s.a.mr.Bytes()[8*s.posted:], s.posted)
	var wr verbs.WR
	switch s.r.IntN(5) {
	case 0, 1:
		wr = oneSided(verbs.OpWrite, s.a, 8*int(s.posted), s.b, streamWord, 8)
	case 2:
		wr = oneSided(verbs.OpFAA, s.a, 60000, s.b, streamSum, 8)
		wr.CompareAdd = 1
		s.adds++
	case 3:
		wr = oneSided(verbs.OpRead, s.a, 50000, s.b, streamWord, 1+s.r.IntN(5000))
	case 4:
		s.sends++
		binary.NativeEndian.PutUint64(s.a.mr.Bytes()[8*s.posted:], s.sends)
		wr = send(s.a, 8*int(s.posted), 8)
		if s.r.IntN(2) == 0 {
			wr.Flags |= verbs.FlagInline
		}
	}
	if s.r.IntN(4) == 0 {
		wr.Flags |= verbs.FlagFence
	}
	if s.r.IntN(3) == 0 || s.posted%16 == 0 {
		wr.Flags |= verbs.FlagSignaled
	}
	wr.ID = s.posted
	s.addsOf, s.sendsOf = append(s.addsOf, s.adds), append(s.sendsOf, s.sends)
	s.a.post(wr)
}

// poll takes completions on both sides and checks them.
func (s *stream) poll(t *testing.T) {
	var wcs [64]verbs.WC
	n, err := s.a.cq.Poll(wcs[:])
	must(t, err)
	for _, wc := range wcs[:n] {
		switch {
		case wc.Status == verbs.WCSuccess && !s.failed && wc.ID > s.done:
			s.done = wc.ID
		case wc.Status == verbs.WCSuccess:
			t.Fatalf("success of %d after %d, failed %v", wc.ID, s.done, s.failed)
		default:
			s.failed = true
		}
	}
	n, err = s.b.rcq.Poll(wcs[:])
	must(t, err)
	for _, wc := range wcs[:n] {
		if wc.Status != verbs.WCSuccess {
			continue // flushed
		}
		s.got++
		if v := binary.NativeEndian.Uint64(s.b.mr.Bytes()[wc.ID:]); v != s.got {
			t.Fatalf("message %d came as number %d", v, s.got)
		}
	}
}

// An RC QP delivers what was posted once, in order and without a gap, or fails; what it reported
// as done has happened.
func TestAQPDeliversAPrefixInOrder(t *testing.T) {
	failures, again, delivered := 0, uint64(0), uint64(0)
	for seed := range uint64(150) {
		a, b := newPair(t, seed)
		s := &stream{a: a, b: b, r: a.w.Rand("stream")}
		faults := RandomSchedule(a.w.Rand("faults"), RandomOptions{Nodes: []string{"a", "b"},
			Faults: 6, Horizon: Millisecond, Span: 400 * Microsecond, Weights: []Weight{
				{CutLink, 5}, {DelayRC, 5}, {SlowNIC, 2}, {Partition, 1}}})
		must(t, a.w.Install(faults))
		receives := 0
		for range 150 {
			if s.posted < 100 && !s.failed && s.posted-s.done < 60 {
				for range 1 + s.r.IntN(4) {
					s.post()
				}
			}
			if receives < 100 && s.r.IntN(3) > 0 && b.qp.State() == verbs.StateRTS {
				b.recv(uint64(8192+8*receives), 8192+8*receives, 8)
				receives++
			}
			must(t, a.w.RunUntil(a.w.Now()+Time(s.r.Int64N(int64(20*Microsecond)))))
			s.poll(t)
		}
		must(t, a.w.Run())
		s.poll(t)
		word := binary.NativeEndian.Uint64(b.mr.Bytes()[streamWord:])
		sum := binary.NativeEndian.Uint64(b.mr.Bytes()[streamSum:])
		if s.failed {
			failures++
		}
		if s.done == 0 {
			continue
		}
		if word > s.posted || sum < s.addsOf[s.done-1] || sum > s.adds ||
			s.got < s.sendsOf[s.done-1] || s.got > s.sends {
			t.Fatalf("seed %d: of %d operations %d are done; word %d, sum %d of %d..%d, %d "+
				"messages of %d..%d\n%s", seed, s.posted, s.done, word, sum, s.addsOf[s.done-1],
				s.adds, s.got, s.sendsOf[s.done-1], s.sends, faults)
		}
		// Sum and messages belong to one and the same prefix.
		whole := false
		for i := s.done - 1; i < s.posted && !whole; i++ {
			whole = s.addsOf[i] == sum && s.sendsOf[i] == s.got
		}
		if !whole {
			t.Fatalf("seed %d: sum %d and %d messages are of no prefix", seed, sum, s.got)
		}
		again += a.w.Stats().Retransmits
		delivered += s.got
	}
	if failures == 0 || failures > 140 || again < 100 || delivered < 500 {
		t.Errorf("%d of 150 QPs failed, %d retransmits, %d messages: the test proves little",
			failures, again, delivered)
	}
	t.Logf("%d of 150 QPs failed, %d retransmits, %d messages", failures, again, delivered)
}
