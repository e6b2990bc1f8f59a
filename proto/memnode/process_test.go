package memnode_test

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/memnode"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// nodeVariable makes the test binary a memory node, on the fabric it names.
const nodeVariable = "DRTMD_MEMNODE"

// call is a request of one of the two kinds; result is its answer, with the CPU time of the node so far.
type call struct {
	Request memnode.Request
	Leave   memnode.ClientID // not 0: instead of Request
}

type result struct {
	Reply memnode.Reply
	Err   string
	CPU   time.Duration
}

// memoryProcess answers calls on its standard input until that ends.
func memoryProcess() int {
	err := serve()
	if err != nil {
		fmt.Fprintln(os.Stderr, "memory node:", err)
		return 1
	}
	return 0
}

func serve() error {
	c, err := shm.New(shm.Options{Dir: os.Getenv(nodeVariable)}).Open("")
	if err != nil {
		return err
	}
	s, err := memnode.NewServer(c, memnode.Config{Bytes: memoryBytes, Format: format})
	if err != nil {
		return err
	}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var x call
		if err := in.Decode(&x); err == io.EOF {
			return errors.Join(s.Close(), c.Close())
		} else if err != nil {
			return err
		}
		var r result
		if x.Leave != 0 {
			err = s.Leave(x.Leave)
		} else {
			r.Reply, err = s.Admit(x.Request)
		}
		if err != nil {
			r.Err = err.Error()
		}
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			return err
		}
		r.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano())
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

// memoryNode is a memory node in another process.
type memoryNode struct {
	in  *gob.Encoder
	out *gob.Decoder
}

func startMemoryNode(t *testing.T, dir string) *memoryNode {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeVariable+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		must(t, in.Close())
		must(t, cmd.Wait())
	})
	return &memoryNode{gob.NewEncoder(in), gob.NewDecoder(out)}
}

func (m *memoryNode) call(x call) (r result, err error) {
	if err := m.in.Encode(x); err != nil {
		return r, err
	}
	if err := m.out.Decode(&r); err != nil {
		return r, err
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

// The memory node is a process of its own: while clients work on its memory it takes no CPU time.
func TestAMemoryNodesProcessIsIdle(t *testing.T) {
	raceskip.Processes(t)
	dir := filepath.Join(t.TempDir(), "fabric")
	p := shm.New(shm.Options{Dir: dir})
	// The clients' fabric is there before the memory node joins it.
	c := open(t, p)
	node := startMemoryNode(t, dir)
	w, drive := newClient(t, c)
	var before result
	way, err := memnode.Join(func(r memnode.Request) (_ memnode.Reply, err error) {
		before, err = node.call(call{Request: r})
		return before.Reply, err
	}, 0, []*fiber.Worker{w}, verbs.ConnectAttr{})
	must(t, err)
	const operations = 500_000
	start := time.Now()
	must(t, drive(add(way, w.PD(), operations)))
	took := time.Since(start)
	after, err := node.call(call{Leave: way.Client})
	must(t, err)
	used := after.CPU - before.CPU
	t.Logf("%d operations in %s: the memory node used %s of CPU", operations, took, used)
	// What the Go runtime does by itself, and the answer to the last call.
	if limit := max(took/20, 5*time.Millisecond); used > limit {
		t.Errorf("the memory node used %s of CPU in %s: more than %s", used, took, limit)
	}
}
