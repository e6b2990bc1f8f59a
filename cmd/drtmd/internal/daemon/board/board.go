// Package board is the part (room) of a daemon that reports its state: a Board stores what the other
// rooms tell it about this node; a Report asks all rooms and the other members when a client wants the
// status.
//
// A Board calls nobody but the log and systemd, and holds its lock for neither. A Report calls the other
// rooms; they do not know it. Everything here may be called from any goroutine.
package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/pace"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

const (
	// keptEvents is how many events a node remembers.
	keptEvents = 100
	// leastSilence and mostSilence are between two events of the same cause.
	leastSilence = 2 * time.Second
	mostSilence  = 30 * time.Second
)

// Options of New.
type Options struct {
	Log      *zap.Logger
	Notifier *service.Notifier
	// Stdout gets one line when the node is ready for the first time.
	Stdout io.Writer
}

// Board is where a node is in its life, why, and what has happened to it of late.
type Board struct {
	o       Options
	started time.Time

	mu       sync.Mutex // guards what follows
	control  string     // address of the control plane
	admin    string     // address of the admin port; "" is none
	phase    status.Phase
	reason   string
	wait     status.Wait // of phase connecting; "": something is wrong
	draining bool        // for good: no other phase comes after it
	served   bool        // READY was said
	failed   string      // why a step of a plane failed, until one serves or is wanted anew
	unbuilt  pace.Repeats
	undone   pace.Repeats // of steps that failed
	events   []status.Event
}

// New makes the board of a node that starts.
func New(o Options) *Board {
	rare := pace.Repeats{Least: leastSilence, Most: mostSilence}
	return &Board{o: o, started: time.Now(), phase: status.Starting,
		reason: "opens its folders, its device and its ports", unbuilt: rare, undone: rare}
}

// SetControl notes the address of the control plane.
func (b *Board) SetControl(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.control = address
}

// SetAdmin notes the address of the admin port.
func (b *Board) SetAdmin(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admin = address
}

// Set says where the node is, and why.
func (b *Board) Set(p status.Phase, reason string) {
	b.mu.Lock()
	text, news := b.setLocked(p, reason, "")
	b.mu.Unlock()
	b.show(text, news)
}

// setLocked gives the text for systemd, and whether it is news.
func (b *Board) setLocked(p status.Phase, reason string, w status.Wait) (text string, news bool) {
	if b.draining {
		p = status.Draining
	}
	if p != status.Connecting {
		w = ""
	}
	news = b.phase != p || b.reason != reason
	b.phase, b.reason, b.wait = p, reason, w
	text = string(p)
	if reason != "" {
		text += ": " + reason
	}
	return text, news
}

func (b *Board) show(text string, news bool) {
	if news {
		_ = b.o.Notifier.Status(text) // systemd may be gone
	}
}

// Drain says that the node was told to stop.
func (b *Board) Drain() {
	b.mu.Lock()
	b.draining = true
	text, news := b.setLocked(status.Draining, "told to stop", "")
	b.mu.Unlock()
	b.show(text, news)
}

// Connecting says that the node does not serve yet, and waits for something that ends by itself; run is
// that of status.OtherRun. Tables that are loaded again after a run stay so until they are, and an
// attempt that follows a failed one keeps the reason of that.
func (b *Board) Connecting(w status.Wait, run string) {
	b.mu.Lock()
	if b.phase == status.Connecting && b.wait == status.Reloading && w == status.Loading {
		w = status.Reloading
	}
	if w != status.Loading {
		b.failed = ""
	}
	reason := b.failed // tried again: what is in the way may still be
	if reason != "" {
		w = ""
	} else {
		reason = waitText(w, run)
	}
	text, news := b.setLocked(status.Connecting, reason, w)
	b.mu.Unlock()
	b.show(text, news)
}

func waitText(w status.Wait, run string) string {
	switch w {
	case status.Reloading:
		return "the run has ended; the tables are being loaded again"
	case status.OtherRun:
		return "waits for the end of run " + run
	case status.OtherTables:
		return "has no part in the tables that the other nodes keep: it gets one when tables are loaded anew on all nodes, " +
			"with it among them; if runs have used those, give them up for that: stop all nodes and remove data.json from " +
			"their state folders, or start with drtmd up --forget"
	}
	return "the tables are being loaded, and the nodes connected"
}

// NotBuilt says that a plane was not built.
func (b *Board) NotBuilt(err error) {
	b.mu.Lock()
	b.failed = err.Error()
	due := b.unbuilt.Due(time.Now(), b.failed)
	text, news := b.setLocked(status.Connecting, b.failed, "")
	b.mu.Unlock()
	b.show(text, news)
	if due {
		b.Event(status.Warn, "the data plane was not built: "+err.Error())
	}
}

// StepFailed says that a step with which a plane is opened has failed.
func (b *Board) StepFailed(s load.Step, err error) {
	level := status.Warn
	if errors.Is(err, context.Canceled) { // whoever asked for it has gone
		level = status.Info
	}
	said := fmt.Sprintf("%s: %v", s, err)
	b.mu.Lock()
	if level == status.Warn && !errors.Is(err, member.ErrStale) {
		b.failed = err.Error()
	}
	due := b.undone.Due(time.Now(), said)
	text, news := b.setLocked(status.Connecting, err.Error(), "")
	b.mu.Unlock()
	b.show(text, news)
	if due {
		b.Event(level, said)
	}
}

// ForgetFailure is for a plane of other members than the one that failed.
func (b *Board) ForgetFailure() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = ""
}

// Serve says that the node serves its part of a plane; self is nil if it is no member any more.
func (b *Board) Serve(self *member.Member, v member.ShardVersion, partitions int) {
	b.mu.Lock()
	text, news := b.setLocked(status.Ready, "", "")
	first := !b.served
	b.served, b.failed = true, ""
	b.unbuilt.Reset()
	b.undone.Reset()
	control, admin := b.control, b.admin
	b.mu.Unlock()
	b.show(text, news)
	if self == nil {
		return
	}
	b.Event(status.Info, fmt.Sprintf("ready: shard map %d, %d partitions", v, partitions))
	if err := b.o.Notifier.Ready(fmt.Sprintf("%v, %d nodes", self, partitions)); err != nil {
		b.o.Log.Warn(err.Error())
	}
	if first {
		fmt.Fprintf(b.o.Stdout, "READY %v, control %s, admin %s\n", self, control, status.OrNone(admin))
	}
}

// Event notes what happened, for status and for the log.
func (b *Board) Event(l status.Level, text string) {
	b.mu.Lock()
	if len(b.events) == keptEvents {
		b.events = slices.Delete(b.events, 0, 1)
	}
	b.events = append(b.events, status.Event{Time: time.Now().UTC(), Level: l, Text: text})
	b.mu.Unlock()
	switch l {
	case status.Info:
		b.o.Log.Info(text)
	case status.Warn:
		b.o.Log.Warn(text)
	default:
		b.o.Log.Error(text)
	}
}

// Events are the last ones, the newest last.
func (b *Board) Events() []status.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

// Phase is where the node is, and why.
func (b *Board) Phase() (p status.Phase, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase, b.reason
}

// Ready implements /readyz.
func (b *Board) Ready() error {
	p, reason := b.Phase()
	if p == status.Ready || p == status.Running {
		return nil
	}
	return fmt.Errorf("%s: %s", p, cmp.Or(reason, "no reason is known"))
}

// Describe implements Describer.
func (b *Board) Describe(_ context.Context, n *status.Node) {
	b.mu.Lock()
	n.Phase, n.Reason, n.Wait, n.Admin = b.phase, b.reason, b.wait, b.admin
	n.Events = slices.Clone(b.events)
	b.mu.Unlock()
	n.PID, n.Started = os.Getpid(), b.started.UTC()
	n.Host, _ = os.Hostname() // "" if the system does not tell
	n.Memory.ResidentBytes = resident()
}

// resident is the memory of the process, in bytes; 0 if the system does not tell.
func resident() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(f[1], 10, 64) // 0 if it is none
	return pages * uint64(os.Getpagesize())
}
