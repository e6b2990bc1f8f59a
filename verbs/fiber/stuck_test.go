package fiber_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// A queue pair on which nothing completes for longer than its retries take is given up, so that who
// waits goes on. Here a SEND waits for a receive that nobody posts, for 3.4
// s if nothing ends it; on Soft-RoCE an interface that goes down leaves requests that wait for ever.
func TestRequestsWithoutProgressAreGivenUp(t *testing.T) {
	h := newRealHost(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")}))
	quick := verbs.RTSAttr{Timeout: 12, RetryCount: 1}
	h.run(func(f *fiber.Fiber) error {
		if err := h.conn.Close(f); err != nil { // it makes room
			return err
		}
		stuck, err := h.worker.NewConn(0)
		if err != nil {
			return err
		}
		_, peer, err := passiveSide(h.passiveContext, stuck.Endpoint())
		if err == nil {
			err = stuck.Connect(peer.Endpoint(), verbs.ConnectAttr{RTS: quick})
		}
		if err != nil {
			return err
		}
		before := f.Now()
		if err := stuck.Send(f, h.buffer.SGE(0, 8)); !errors.Is(err, verbs.WCWRFlushErr) {
			return fmt.Errorf("the SEND ended with %v after %v, not flushed", err, f.Now()-before)
		}
		took, n := f.Now()-before, f.Worker().Stats.Stuck
		if took < quick.GivesUpIn() || n != 1 {
			return fmt.Errorf("flushed after %v, retries take %v; %d given up", took, quick.GivesUpIn(), n)
		}
		t.Logf("flushed after %v, retries take %v", took, quick.GivesUpIn())
		return nil
	})
}
