package occ

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/log"
	"drtmd/verbs/fiber"
)

// TestARecordInTheLogIsNoVoteForApplied: a node votes that it has applied an update when it has freed the record of
// that, not while it has the record, has dropped it, or has never had it.
func TestARecordInTheLogIsNoVoteForApplied(t *testing.T) {
	x := newKit(t)
	k := proto.Key(2) // of shard 2, whose backup is here
	votes := func(name recovery.Name, v int) bool {
		t.Helper()
		n := &noted{name: name, word: deadsWord, epoch: kitEpoch, writes: []recovery.Write{write(k, version(v), 1)}}
		piece, _ := appendPart(nil, n, 0, partMost, false, nil)
		req := append((&ask{request: askApplied, epoch: kitEpoch}).append(nil), piece...)
		resp := make([]byte, messageBytes)
		size, err := x.view.serve(req, resp)
		must(t, err)
		return slices.Equal(resp[sayBytes:size], []byte{1})
	}
	for i := range recovery.Name(3) {
		x.append(1, ofNode1+1+i, 0, write(k, version(int(i)+2), 1))
	}
	x.view.scan()
	if votes(ofNode1+1, 2) {
		t.Error("the record is in the log, with a later one behind it")
	}
	if votes(ofNode1>>32<<32-1<<32+1, 2) {
		t.Error("a name of an earlier life is lower than that of the newest record")
	}
	x.view.drop(ofNode1 + 2)
	if votes(ofNode1+2, 3) {
		t.Error("the record was dropped")
	}
	x.hosts[1].decided = x.hosts[1].Position()
	x.hosts[1].apply()
	if !votes(ofNode1+1, 2) {
		t.Error("the record was applied")
	}
	x.holds(k, version(4), 1, onesided.Unlocked)
	if k = 5; !votes(ofNode1+3, 2) {
		t.Error("the newest record was freed; what it wrote may be deleted since")
	}
	if k = 3; !votes(ofNode1+3, 2) {
		t.Error("this node is the primary, and held the record because the coordinator was the backup")
	}
	x.append(1, ofNode1+4, 0, write(5, version(2), 1)) // after the scan
	if k = 5; votes(ofNode1+4, 2) {
		t.Error("the record is in the log, and was not noted")
	}
	k = 3
	x.load(k, version(1), 1, deadsWord)
	x.append(2, 2<<56|1<<32|1, x.hosts[2].Position(), write(k, version(2), 1))
	x.hosts[2].decided = x.hosts[2].Position()
	if x.hosts[2].apply(); votes(2<<56|1<<32|1, 2) {
		t.Error("this node is the primary, and need not have held a record of another coordinator")
	}
}

// TestANewReplicaTakesNoOldRecords: a replica that is here since a later epoch than that of a record is filled from the
// primary, which may have forgotten since what the record has written.
func TestANewReplicaTakesNoOldRecords(t *testing.T) {
	x := newKit(t)
	const old, now = proto.Key(2), proto.Key(5) // of shard 2
	x.view.backs[2][0] = span{from: kitEpoch + 1, is: true}
	x.append(1, ofNode1+1, 0, write(old, version(1), 1))
	x.writers[1].SetEpoch(kitEpoch + 1)
	x.append(1, ofNode1+2, 0, write(now, version(1), 1))
	x.hosts[1].decided = x.hosts[1].Position()
	if x.hosts[1].apply(); x.hosts[1].Head() != x.hosts[1].Position() {
		t.Error("the log is not freed")
	}
	x.holds(old, version(1), 0, onesided.Unlocked)
	x.holds(now, version(1), 1, onesided.Unlocked)
}

// TestAHalfWrittenRecordIsWritten: a NIC writes the version of a record before its value, and its coordinator may
// die in between. The lock of a dead coordinator may be that of its next attempt, and stays for that.
func TestAHalfWrittenRecordIsWritten(t *testing.T) {
	const k, old, now = 0, 1, 2
	for _, c := range []struct {
		name  string
		there int // number of the version
		dead  bool
		value byte // of the record in the end
		word  onesided.Word
	}{
		{"not begun", 1, true, now, onesided.Unlocked},
		{"half, of a dead coordinator", 2, true, now, deadsWord},
		{"half, of one that lives", 2, false, now, onesided.Unlocked},
		{"a newer version", 3, true, old, deadsWord},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newKit(t)
			x.load(k, version(c.there), old, deadsWord)
			x.view.note(&noted{name: ofNode1 + 1, word: deadsWord, dead: c.dead, logged: true, epoch: kitEpoch,
				writes: []recovery.Write{write(k, version(2), now)}})
			if !x.view.commit(ofNode1 + 1) {
				t.Fatal("it is not possible now")
			}
			x.holds(k, version(max(c.there, 2)), c.value, c.word)
		})
	}
}

// TestAValueThatNobodyHasIsNotWritten: the record stays as it was, whole.
func TestAValueThatNobodyHasIsNotWritten(t *testing.T) {
	x := newKit(t)
	x.load(0, version(1), 1, deadsWord)
	w := write(0, version(2), 2)
	w.Value = nil
	x.view.note(&noted{name: ofNode1 + 1, word: deadsWord, dead: true, epoch: kitEpoch, writes: []recovery.Write{w}})
	if !x.view.commit(ofNode1 + 1) {
		t.Fatal("it is not possible now")
	}
	x.holds(0, version(1), 1, onesided.Unlocked)
}

// TestALogThatMakesNoSenseIsNamed, and nothing of it is applied: neither a record that has changed since it was read,
// nor one whose body is no transaction's.
func TestALogThatMakesNoSenseIsNamed(t *testing.T) {
	const k = 2
	good := write(k, version(2), 2)
	beyond := good
	beyond.Shard = kitNodes
	for _, c := range []struct {
		name   string
		append func(x *kit)
		want   error
	}{
		{"changed", func(x *kit) {
			h := x.hosts[1]
			at := h.Position()
			x.append(1, ofNode1+1, 0, good)
			x.logs[1][h.Log.Log.Line(at)*64+40] ^= 1
		}, log.ErrChecksum},
		{"no body", func(x *kit) { x.appendBody(1, ofNode1+1, nil) }, recovery.ErrRecord},
		{"no transaction", func(x *kit) { x.appendBody(1, ofNode1+1, make([]byte, 64)) }, recovery.ErrRecord},
		{"no such shard", func(x *kit) { x.append(1, ofNode1+1, 0, beyond) }, recovery.ErrRecord},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, scanned := range []bool{false, true} {
				x := newKit(t)
				x.load(k, version(1), 1, onesided.Unlocked)
				c.append(x)
				if scanned {
					x.view.scan()
				} else if c.name == "no such shard" {
					continue // applied to none
				}
				x.hosts[1].decided = x.hosts[1].Position()
				x.hosts[1].apply()
				if err := x.Trouble(); !errors.Is(err, errLog) || !errors.Is(err, c.want) || x.brokenLog() == nil {
					t.Errorf("scanned %t: %v, want %v", scanned, err, c.want)
				}
				x.append(1, ofNode1+2, x.hosts[1].Position(), good)
				x.hosts[1].apply()
				x.holds(k, version(1), 1, onesided.Unlocked)
				if x.hosts[2].broken != nil {
					t.Error("the log of the other node is broken, too")
				}
				x.run(func(f *fiber.Fiber) error {
					err := recoverer{x.Engine}.Recover(f, kitEpoch, func(proto.NodeID) bool { return true })
					if !errors.Is(err, errLog) {
						t.Errorf("scanned %t: recovery ends with %v", scanned, err)
					}
					return nil
				})
			}
		})
	}
}

// TestRequestsOfRecoveryThatMakeNoSenseAreRefused, whatever numbers they have.
func TestRequestsOfRecoveryThatMakeNoSenseAreRefused(t *testing.T) {
	x := newKit(t)
	x.append(1, ofNode1+1, 0, write(2, version(2), 2))
	x.view.scan()
	beyond := write(2, version(2), 2)
	beyond.Shard = kitNodes
	n := &noted{name: ofNode1 + 2, word: deadsWord, epoch: kitEpoch, writes: []recovery.Write{beyond}}
	piece, _ := appendPart(nil, n, 0, partMost, true, nil)
	resp := make([]byte, messageBytes)
	for _, q := range []request{askApplied, askLog, askUnlock} {
		req := append((&ask{request: q, epoch: kitEpoch, name: n.name}).append(nil), piece...)
		for length := range req {
			if _, err := x.view.serve(req[:length], resp); !errors.Is(err, errRequest) {
				t.Errorf("request %d of %d bytes: %v", q, length, err)
			}
		}
		if _, err := x.view.serve(req, resp); !errors.Is(err, errRequest) {
			t.Errorf("request %d for shard %d of %d: %v", q, beyond.Shard, kitNodes, err)
		}
	}
	for q := askKnown; q < requestEnd; q++ {
		for _, index := range []uint64{1, 2, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
			for _, of := range []uint32{0, kitNodes, math.MaxInt32, math.MaxUint32} {
				for _, name := range []recovery.Name{0, kitTable, ofNode1 + 1, math.MaxUint64} {
					a := ask{request: q, of: of, epoch: kitEpoch, name: name, index: index}
					_, _ = x.view.serve(a.append(nil), resp) // it does not panic
				}
			}
		}
	}
}

// notHeldMessenger answers every request that the lock of an item is not there.
type notHeldMessenger struct {
	messenger
	index int
}

func (notHeldMessenger) start(*tx, *call) error { return nil }
func (m notHeldMessenger) await(_ *tx, c *call) (int, error) {
	(&head{code: notHeld, index: m.index}).put(c.resp[:])
	return headBytes, nil
}
func (notHeldMessenger) longest() int { return messageBytes }

// TestAFillThatBeginsWhileThePhasesPauseEnds: otherwise it would ask for ever, and the next Pause wait for it.
func TestAFillThatBeginsWhileThePhasesPauseEnds(t *testing.T) {
	x := newKit(t)
	x.run(func(f *fiber.Fiber) error {
		must(t, recoverer{x.Engine}.Pause(f))
		const long = time.Millisecond
		f.Worker().Go("the next view", nil, func(f *fiber.Fiber) error {
			must(t, f.Sleep(long))
			x.view.turn++
			return nil
		})
		begin := f.Now()
		if err := (recoverer{x.Engine}).Fill(f, 2); !errors.Is(err, errStopped) || f.Now()-begin >= long {
			t.Errorf("after %v: %v", f.Now()-begin, err)
		}
		return nil
	})
}

// TestALockThatANodeHasGivenAwayIsNamed: its update is not confirmed, those of others in the request are. A lock that
// was asked for may not be there.
func TestALockThatANodeHasGivenAwayIsNamed(t *testing.T) {
	for _, hold := range []onesided.Hold{onesided.Locked, onesided.Asked} {
		x := newKit(t)
		x.messengers[RPC] = notHeldMessenger{index: 1}
		x.run(func(f *fiber.Fiber) error {
			tx, err := x.take()
			must(t, err)
			tx.Open(f, nil)
			for _, k := range []proto.Key{1, 4} {
				must(t, tx.Add(kitTable, k, proto.ModeWrite))
			}
			for i := range tx.Records {
				r := &tx.Records[i]
				r.Take(version(1), true)
				r.Dirty, r.Own.Hold = true, hold
			}
			tx.release(proto.PhaseCommit)
			r, lost := &tx.Records[1], tx.unconfirmed()
			if named := errors.Is(x.Trouble(), errLost); named != (hold == onesided.Locked) || named != (lost == r) {
				t.Errorf("%v: %v; not confirmed: %v", hold, x.Trouble(), lost)
			}
			if !tx.Records[0].Own.Stored || r.Own.Hold != onesided.Nothing {
				t.Errorf("%v: the other record is not confirmed, or the lock is still held", hold)
			}
			return nil
		})
	}
}
