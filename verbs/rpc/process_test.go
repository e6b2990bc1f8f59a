package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// serverVariable makes the test binary a server on the fabric that it names.
const serverVariable = "DRTMD_RPC_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverVariable); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// serve writes its address to the standard output and echoes until the standard input ends.
func serve(dir string) (err error) {
	ctx, err := shm.New(shm.Options{Dir: dir}).Open("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ctx.Close()) }()
	thread, err := fiber.NewThread(fiber.ThreadConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, thread.Close()) }()
	pd, err := ctx.AllocPD()
	if err != nil {
		return err
	}
	cfg := Config{Incarnation: uint64(os.Getpid())}
	w, err := thread.NewWorker(fiber.WorkerConfig{Name: "server", PD: pd,
		Extra: cfg.Completions()})
	if err != nil {
		return err
	}
	port, err := NewPort(w, cfg)
	if err != nil {
		return err
	}
	port.Handle(typeEcho, echo)
	b, err := port.Address().MarshalBinary()
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(b); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, it is over
		thread.Stop()
	}()
	return fiber.Threads(context.Background(), thread)
}

// server is a process that serves.
type server struct {
	cmd     *exec.Cmd
	in      io.Closer
	address Address
}

func startServer(t *testing.T, dir string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(os.Args[0])}
	s.cmd.Env = append(os.Environ(), serverVariable+"="+dir)
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var b [AddressBytes]byte
	if _, err := io.ReadFull(out, b[:]); err != nil {
		t.Fatal(err)
	}
	if err := s.address.UnmarshalBinary(b[:]); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServerProcessThatIsKilledIsGoneAndAnotherServes(t *testing.T) {
	raceskip.Processes(t)
	const timeout = 2 * time.Second // a server's process shares its CPU with others, in a guest with much else
	dir := filepath.Join(t.TempDir(), "run")
	c := newCluster(t, shm.New(shm.Options{Dir: dir}), 1, Config{PeerTimeout: timeout})
	first := startServer(t, dir)
	second := startServer(t, dir)
	call := func(f *fiber.Fiber, to *server) (*Session, error) {
		s, err := c.ports[0].Connect(f, to.address, 0)
		for i := 0; i < 50 && err == nil; i++ {
			err = checkEcho(f, s, i*100, i)
		}
		return s, err
	}
	c.run(func(f *fiber.Fiber) error {
		s, err := call(f, first)
		if err != nil {
			return err
		}
		if err := first.cmd.Process.Kill(); err != nil {
			return err
		}
		_ = first.cmd.Wait() // it was killed: that is its error
		at := f.Now()
		err = checkEcho(f, s, 100, 0)
		if took := f.Now() - at; !errors.Is(err, ErrPeerGone) || took < timeout/2 {
			return fmt.Errorf("after the server was killed: %v, after %v", err, took)
		}
		_, err = call(f, second) // nothing of this port has suffered
		return err
	})
	if err := second.in.Close(); err != nil {
		t.Error(err)
	}
	if err := second.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := c.ports[0].Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("the port: %v", err)
	}
}
