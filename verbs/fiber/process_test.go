package fiber_test

import (
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// peerVariable makes the test binary the passive peer of newProcessHost, on the fabric it names.
const peerVariable = "DRTMD_FIBER_PEER"

// hello is what the peer answers to an endpoint.
type hello struct {
	Endpoint []byte
	Memory   verbs.RemoteMR
}

// passivePeer serves memory until its standard input ends.
func passivePeer() int {
	c, err := shm.New(shm.Options{Dir: os.Getenv(peerVariable)}).Open("")
	if err == nil {
		err = serveMemory(c)
		if cerr := c.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "passive peer:", err)
		return 1
	}
	return 0
}

func serveMemory(c *verbs.Context) error {
	var b []byte
	in := gob.NewDecoder(os.Stdin)
	if err := in.Decode(&b); err != nil {
		return err
	}
	var peer verbs.Endpoint
	if err := peer.UnmarshalBinary(b); err != nil {
		return err
	}
	mr, qp, err := passiveSide(c, peer)
	if err != nil {
		return err
	}
	e := qp.Endpoint()
	if b, err = e.MarshalBinary(); err != nil {
		return err
	}
	if err := gob.NewEncoder(os.Stdout).Encode(hello{Endpoint: b, Memory: mr.Remote()}); err != nil {
		return err
	}
	if err := in.Decode(&b); err != io.EOF {
		return fmt.Errorf("after the endpoint: %v", err)
	}
	return nil
}

// newProcessHost is a host whose passive node is another process.
func newProcessHost(t *testing.T) *host {
	raceskip.Processes(t)
	dir := filepath.Join(t.TempDir(), "fabric")
	h := &host{t: t, unit: 2 * time.Millisecond}
	thread, err := fiber.NewThread(fiber.ThreadConfig{Drain: 500 * time.Millisecond})
	h.must(err)
	active := h.open(shm.New(shm.Options{Dir: dir}))
	h.makeConn(active, thread.NewWorker)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerVariable+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	h.must(err)
	out, err := cmd.StdoutPipe()
	h.must(err)
	h.must(cmd.Start())
	t.Cleanup(func() {
		h.must(thread.Close())
		h.must(active.Close())
		h.must(in.Close())
		h.must(cmd.Wait())
	})
	b, err := h.conn.Endpoint().MarshalBinary()
	h.must(err)
	h.must(gob.NewEncoder(in).Encode(b))
	var answer hello
	h.must(gob.NewDecoder(out).Decode(&answer))
	var peer verbs.Endpoint
	h.must(peer.UnmarshalBinary(answer.Endpoint))
	h.remote = answer.Memory
	h.must(h.conn.Connect(peer, verbs.ConnectAttr{}))
	h.drive = func() error { return fiber.Threads(t.Context(), thread) }
	h.stop = thread.Stop
	return h
}
