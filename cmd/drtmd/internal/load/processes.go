package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"drtmd/proto/history"
)

// ProcessOptions of RunProcesses.
type ProcessOptions struct {
	Options
	Nodes     int // of the cluster, dealt out to the processes in turn
	Processes int
	// Command makes the command of a process that calls Join with the socket that it has as file
	// descriptor 3.
	Command func() *exec.Cmd
	// Names are those of the workload, for histories.
	Names history.Names
	// TempDir is for histories; "" is the system's.
	TempDir string
	// Lost, if not nil, is told at once of a process that has ended while clients run.
	Lost func(error)
}

// process is a Peer that this process has started.
type process struct {
	*talk
	one   sync.Mutex // held while a request is answered
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has
	err   error         // how it has, valid after that
}

// RunProcesses is Run on a cluster whose nodes live in several processes of this machine.
func RunProcesses(ctx context.Context, o ProcessOptions) (*Result, error) {
	var list []*process
	po := PeerOptions{Options: o.Options, Nodes: o.Nodes, Names: o.Names, Lost: o.Lost,
		TempDir: o.TempDir}
	for range o.Processes {
		p, err := launch(o.Command())
		if err != nil {
			return nil, errors.Join(err, end(list))
		}
		list = append(list, p)
		po.Peers = append(po.Peers, p)
	}
	res, err := RunPeers(ctx, po)
	return res, errors.Join(err, end(list))
}

// launch starts a process with a socket to it.
func launch(cmd *exec.Cmd) (*process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "process")
	defer theirs.Close()
	conn, err := net.FileConn(ours) // which duplicates it
	if err := errors.Join(err, ours.Close()); err != nil {
		return nil, err
	}
	p := &process{talk: newTalk(conn), cmd: cmd, ended: make(chan struct{})}
	cmd.ExtraFiles = []*os.File{theirs}
	// A signal of the terminal is the supervisor's: it ends the run, and the processes with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// end waits for the processes, which RunPeers has told to quit, and kills those that do not.
func end(list []*process) error {
	deadline := time.After(quitTimeout)
	var errs []error
	for _, p := range list {
		_ = p.send(&Request{Step: StepQuit}) // it may not have been told; it may have ended
		select {
		case <-p.ended:
		case <-deadline:
			_ = p.cmd.Process.Kill() // it may have ended
			<-p.ended
		}
		errs = append(errs, p.conn.Close())
	}
	return errors.Join(errs...)
}

func (p *process) Name() string { return fmt.Sprintf("process %d", p.cmd.Process.Pid) }

func (p *process) Gone() <-chan struct{} { return p.ended }

// Err is how the process ended.
func (p *process) Err() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Do sends the request and takes the answer. A context that ends before kills the process: nothing
// else could be asked of it.
func (p *process) Do(ctx context.Context, r *Request) (*Answer, error) {
	p.one.Lock()
	defer p.one.Unlock()
	if r.Step == StepQuit {
		return nil, p.send(r) // its end is the answer
	}
	if err := p.send(r); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	a, err := p.answer()
	if err != nil && ctx.Err() != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		return nil, ctx.Err()
	}
	return a, err
}
