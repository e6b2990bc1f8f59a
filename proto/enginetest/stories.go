package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// storiesDir has a folder for all protocols, and one for each whose paper says more.
const storiesDir = "testdata/stories"

// stories tells those of the folder "all", of "early" or "late", which is when the protocol locks, or of "nic", where NICs have locks, and of
// the protocol's own, these with line words only.
func stories(t *testing.T, e env) {
	if _, err := os.Stat(storiesDir); err != nil {
		t.Skipf("the stories are with the package's source: %v", err)
	}
	folders := []string{"all", "early", e.protocol.Name}
	switch {
	case e.protocol.LocksLate:
		folders[1] = "late"
	case e.protocol.Chips != nil:
		folders[1] = "nic"
	}
	if e.host.WithoutLineWords {
		folders = folders[:2]
	}
	told := 0
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(storiesDir, folder, "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			told++
			t.Run(filepath.Base(file), func(t *testing.T) { tell(t, e, file) })
		}
	}
	if told == 0 {
		t.Error("no story")
	}
}

// tell runs one story.
func tell(t *testing.T, e env, file string) {
	s := &story{env: e, t: t, actors: map[string]*actor{}}
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		if s.c == nil {
			s.open(d)
			if d.Cmd == "cluster" {
				return "ok"
			}
		}
		return s.do(d)
	})
	if s.c == nil {
		t.Fatal("an empty story")
	}
	for name, a := range s.actors {
		if !a.over {
			t.Errorf("transaction %s has no end", name)
			s.ask(a, endAbort)
		}
	}
	s.c.verify()
}

// story is one that is being told.
type story struct {
	env
	t      *testing.T
	c      *cluster
	actors map[string]*actor
}

// actor is a fiber that runs one transaction, step by step.
type actor struct {
	node proto.NodeID
	step func(f *fiber.Fiber, e proto.Engine) string // what it is to do next
	tx   proto.Tx
	said string
	busy bool
	over bool
}

// Bounds of a step, in virtual time.
const (
	actorLooks = time.Microsecond
	stepBound  = 2 * time.Millisecond
)

// open builds the cluster: "cluster nodes=N".
func (s *story) open(d *datadriven.TestData) {
	nodes := 3
	if d.Cmd == "cluster" && d.HasArg("nodes") {
		d.ScanArgs(s.t, "nodes", &nodes)
	}
	s.c = s.start(s.t, func(c *node.Config) { c.Nodes, c.Fibers = nodes, 8 })
}

// do carries out a command of a story.
func (s *story) do(d *datadriven.TestData) string {
	switch d.Cmd {
	case "sleep":
		span, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err == nil {
			err = s.c.Sleep(context.Background(), span)
		}
		return word(err)
	case "memory":
		var lines []string
		for _, a := range d.CmdArgs {
			lines = append(lines, a.Key+": "+s.memory(s.key(a.Key)))
		}
		return strings.Join(lines, "\n")
	case "begin":
		return s.begin(d)
	case "transaction":
		return s.whole(d)
	case "result":
		return s.wait(s.actor(d))
	}
	a := s.actor(d)
	if a.busy {
		return "still waits"
	}
	op := s.operation(d.Cmd, d.CmdArgs[1:])
	return s.ask(a, op)
}

// whole runs a transaction from its beginning to its end without a pause, an operation on each line.
func (s *story) whole(d *datadriven.TestData) string {
	a, decl, n := s.cast(d)
	var ops []step
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		words := strings.Fields(line)
		var args []datadriven.CmdArg
		for _, w := range words[1:] {
			args = append(args, datadriven.CmdArg{Key: w})
		}
		ops = append(ops, s.operation(words[0], args))
	}
	return s.ask(a, func(a *actor, f *fiber.Fiber, e proto.Engine) string {
		said := []string{beginning(decl, n)(a, f, e)}
		for _, op := range ops {
			if a.over {
				break
			}
			said = append(said, op(a, f, e))
		}
		return strings.Join(said, "\n")
	})
}

func (s *story) begin(d *datadriven.TestData) string {
	a, decl, n := s.cast(d)
	return s.ask(a, beginning(decl, n))
}

// cast makes an actor and its declaration: NAME node=N read=(a@1) write=(b@2) attempt=K.
func (s *story) cast(d *datadriven.TestData) (*actor, *proto.Decl, int) {
	var at, n int
	d.ScanArgs(s.t, "node", &at)
	d.MaybeScanArgs(s.t, "attempt", &n)
	var all []proto.Access
	for _, m := range []proto.Mode{proto.ModeRead, proto.ModeWrite, proto.ModeInsert,
		proto.ModeDelete} {
		for _, arg := range d.CmdArgs {
			if arg.Key == m.String() {
				for _, v := range arg.Vals {
					all = append(all, proto.Access{Table: small, Mode: m, Key: s.key(v)})
				}
			}
		}
	}
	a := &actor{node: proto.NodeID(at)}
	s.actors[d.CmdArgs[0].Key] = a
	s.c.Start("actor", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != a.node || w.Index != 0 {
			return nil
		}
		for !a.over {
			if a.step != nil {
				next := a.step
				a.step = nil
				a.said = next(f, w.Engine)
				a.busy = false
				continue
			}
			if err := f.Sleep(actorLooks); err != nil {
				return err
			}
		}
		return nil
	})
	return a, declare(all...), n
}

// step is one thing that an actor does.
type step func(a *actor, f *fiber.Fiber, e proto.Engine) string

// ask has an actor do something, and gives what came of it, or that it waits.
func (s *story) ask(a *actor, op step) string {
	a.busy = true
	a.step = func(f *fiber.Fiber, e proto.Engine) string { return op(a, f, e) }
	return s.wait(a)
}

func (s *story) wait(a *actor) string {
	for spent := time.Duration(0); a.busy && spent < stepBound; spent += actorLooks {
		if err := s.c.Sleep(context.Background(), actorLooks); err != nil {
			return err.Error()
		}
	}
	if a.busy {
		return "waits"
	}
	return a.said
}

func (s *story) actor(d *datadriven.TestData) *actor {
	a := s.actors[d.CmdArgs[0].Key]
	if a == nil {
		d.Fatalf(s.t, "no transaction %s", d.CmdArgs[0].Key)
	}
	return a
}

// key reads a@1: key a of node 1. Capitals are keys that are not loaded.
func (s *story) key(name string) proto.Key {
	letter, home, _ := strings.Cut(name, "@")
	n, err := strconv.Atoi(home)
	if err != nil || len(letter) != 1 {
		s.t.Fatalf("%q is no key such as a@1", name)
	}
	if c := letter[0]; c < 'a' {
		return keyOn(proto.NodeID(n), loaded+uint64(c-'A'))
	}
	return keyOn(proto.NodeID(n), uint64(letter[0]-'a'))
}

// memory says what lies in memory of a key.
func (s *story) memory(k proto.Key) string {
	s.c.arrive()
	r := s.c.record(small, k)
	switch {
	case !r.entry:
		return "no entry"
	case !r.version.Live():
		return fmt.Sprintf("absent, version %d.%d%s", r.version.Incarnation(), r.version.Number(), lockWord(r))
	}
	v, _ := number(r.value)
	return fmt.Sprintf("%d, version %d.%d%s", v, r.version.Incarnation(), r.version.Number(), lockWord(r))
}

func lockWord(r record) string {
	switch {
	case r.locked:
		return ", locked"
	case r.state != 0:
		return ", leased"
	}
	return ""
}

// beginning begins a transaction.
func beginning(decl *proto.Decl, n int) step {
	return func(a *actor, f *fiber.Fiber, e proto.Engine) string {
		var err error
		a.tx, err = e.Begin(f, decl, n)
		if err != nil {
			a.over = true
		}
		return word(err)
	}
}

// endAbort ends a transaction that the story has left.
func endAbort(a *actor, _ *fiber.Fiber, _ proto.Engine) string {
	a.over = true
	if a.tx != nil {
		a.tx.Abort(errGivenUp)
	}
	return "ok"
}

// operation is one of a transaction's: read a@1; write a@1 5; insert; delete; commit; rollback; abort.
func (s *story) operation(name string, args []datadriven.CmdArg) step {
	if slices.Contains([]string{"commit", "rollback", "abort"}, name) {
		return s.ending(name)
	}
	if len(args) == 0 {
		s.t.Fatalf("%s of what?", name)
	}
	k := s.key(args[0].Key)
	var v uint64
	if len(args) > 1 {
		var err error
		if v, err = strconv.ParseUint(args[1].Key, 10, 64); err != nil {
			s.t.Fatal(err)
		}
	}
	return func(a *actor, _ *fiber.Fiber, _ proto.Engine) string {
		var err error
		said := "ok"
		switch name {
		case "read":
			b := value(small, 0)
			if err = a.tx.Read(small, k, b); err == nil {
				got, _ := number(b)
				said = strconv.FormatUint(got, 10)
			}
		case "write":
			err = a.tx.Write(small, k, value(small, v))
		case "insert":
			err = a.tx.Insert(small, k, value(small, v))
		case "delete":
			err = a.tx.Delete(small, k)
		default:
			return "unknown command " + name
		}
		if err == nil {
			return said
		}
		if proto.AbortReason(err) != 0 {
			a.over = true
			a.tx.Abort(err)
		}
		return word(err)
	}
}

func (s *story) ending(name string) step {
	return func(a *actor, f *fiber.Fiber, e proto.Engine) string {
		a.over = true
		var err error
		switch name {
		case "commit":
			if err = a.tx.Commit(); err == nil {
				err = s.c.rest(f, e)
			}
			if err == nil {
				return "committed"
			}
		case "rollback":
			if err = a.tx.Rollback(); err == nil {
				return "rolled back"
			}
		case "abort":
			a.tx.Abort(errGivenUp)
			return "aborted"
		}
		return word(err)
	}
}

// word is an outcome in the story's words.
func word(err error) string {
	var a *proto.Abort
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &a):
		return "abort: " + a.Reason.String()
	}
	return err.Error()
}
