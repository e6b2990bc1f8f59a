//go:build linux && amd64 && !race

package htm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/htm"
	"drtmd/verbs"
	"drtmd/verbs/lineword"
	"drtmd/verbs/shm"
)

// childEnv tells a re-executed test binary where to die: "run directory|step|occurrence". Without a
// step it works until it is killed.
const childEnv = "DRTMD_HTM_TEST_CHILD"

// playsChild does not return in a child.
func playsChild() {
	if what := os.Getenv(childEnv); what != "" {
		part := strings.Split(what, "|")
		var k int
		_, err := fmt.Sscan(part[2], &k)
		check(err)
		die(part[0], part[1], k)
	}
}

// The transaction that is interrupted: it takes 1 from the first of these lines for each of the
// others and stores a whole line beside, so that words, bytes and lines are all published.
const (
	killLines = 4
	wholeLine = 10
)

func keptMR(dir string) (*verbs.Context, *verbs.MR, error) {
	c, err := shm.New(shm.Options{Dir: dir}).Open("")
	if err != nil {
		return nil, nil, err
	}
	pd, err := c.AllocPD()
	if err != nil {
		return c, nil, err
	}
	mr, err := pd.AllocMR(mrBytes, verbs.AccessAll, verbs.MROptions{Keep: "killed", LineOwners: 2})
	return c, mr, err
}

// die commits one transfer, and kills its process at the k-th time of a step in a second one.
func die(dir, step string, k int) {
	_, mr, err := keptMR(dir)
	check(err)
	m, err := claim(mr)
	check(err)
	if step == "" {
		storm(m)
	}
	armed := false
	r := htm.NewRegion(htm.Config{Step: func(name string) {
		if armed && name == step {
			if k--; k == 0 {
				check(syscall.Kill(os.Getpid(), syscall.SIGKILL))
				select {}
			}
		}
	}})
	transfer(r, m)
	armed = true
	transfer(r, m) // the parent sees whether the first one was done
	fmt.Fprintln(os.Stderr, "child: the step was not taken")
	os.Exit(4)
}

// storm commits one transfer after another, for some seconds at most.
func storm(m *htm.Memory) {
	r := htm.NewRegion(htm.Config{})
	transfer(r, m)
	fmt.Println("at work")
	for range 20_000_000 {
		transfer(r, m)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
}

func transfer(r *htm.Region, m *htm.Memory) bool {
	r.Begin()
	var line [lineBytes]byte
	r.Load(m, wholeLine*lineBytes, line[:])
	for i := range line {
		line[i]++
	}
	r.Store(m, wholeLine*lineBytes, line[:])
	for i := killLines - 1; i > 0; i-- {
		v, _ := r.Load64(m, i*lineBytes+8)
		r.Store64(m, i*lineBytes+8, v+1)
		v, _ = r.Load64(m, 16)
		r.Store64(m, 16, v-1)
	}
	return r.Commit(inCommit(func() {}))
}

// keep has a context hold the run directory, and so the kept memory, until the test's end.
func keep(t *testing.T, dir string) {
	t.Helper()
	holder, err := shm.New(shm.Options{Dir: dir}).Open("")
	must(t, err)
	t.Cleanup(func() { must(t, holder.Close()) })
}

// TestKilledAtAnyInstantIsAllOrNothing kills a process that does nothing but commit.
func TestKilledAtAnyInstantIsAllOrNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 12 {
		dir := filepath.Join(t.TempDir(), "run")
		keep(t, dir)
		exe, err := os.Executable()
		must(t, err)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s||0", childEnv, dir))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if _, err := out.Read(make([]byte, 100)); err != nil {
			t.Fatal("the child says nothing:", err)
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		c, mr, err := keptMR(dir)
		must(t, err)
		m, err := claim(mr)
		must(t, err)
		r := htm.NewRegion(htm.Config{})
		r.Begin()
		n, _ := r.Load64(m, lineBytes+8)
		inspectLines(t, r, m, n)
		if !r.Commit(nil) || n == 0 || !transfer(r, m) {
			t.Error("the memory cannot be read and written")
		}
		must(t, c.Close())
	}
}

// TestKilledCommitIsAllOrNothing kills a process at every marked step of a commit, opens its kept
// memory again and looks at it.
func TestKilledCommitIsAllOrNothing(t *testing.T) {
	const written = killLines + 1
	type death struct {
		step string
		k    int
	}
	var deaths []death
	for _, s := range []struct {
		step  string
		times int
	}{
		{htm.StepListed, 1}, {htm.StepLocked, written}, {htm.StepConfirmed, 1},
		{htm.StepValidated, 1}, {htm.StepCommitted, 1}, {htm.StepStored, written},
		{htm.StepPublished, written},
	} {
		for k := range s.times {
			deaths = append(deaths, death{s.step, k + 1})
		}
	}
	for _, d := range deaths {
		t.Run(fmt.Sprintf("%s %d", d.step, d.k), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			keep(t, dir)
			killChild(t, dir, d.step, d.k)
			done := d.step == htm.StepCommitted || d.step == htm.StepStored ||
				d.step == htm.StepPublished
			c, mr, err := keptMR(dir)
			must(t, err)
			defer func() { must(t, c.Close()) }()
			inspect(t, mr, done)
		})
	}
}

func killChild(t *testing.T, dir, step string, k int) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d", childEnv, dir, step, k))
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !state.Signaled() || state.Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed at its step: %v", err)
	}
}

// inspect checks that one transfer was done, or two, and that the memory is as good as new.
func inspect(t *testing.T, mr *verbs.MR, second bool) {
	t.Helper()
	for i, w := range mr.Lines() {
		if lineword.Word(w).Locked() {
			t.Errorf("line %d is at %s", i, lineword.Word(w))
		}
	}
	m, err := claim(mr)
	must(t, err)
	_, err = claim(mr) // the slot of the dead is free again
	must(t, err)
	want := uint64(1)
	if second {
		want = 2
	}
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	inspectLines(t, r, m, want)
	if !r.Commit(nil) {
		t.Error("the memory cannot be read")
	}
	if !transfer(htm.NewRegion(htm.Config{}), m) {
		t.Error("the memory cannot be written")
	}
}

// inspectLines checks in a region that so many transfers were done.
func inspectLines(t *testing.T, r *htm.Region, m *htm.Memory, want uint64) {
	t.Helper()
	for i := 1; i < killLines; i++ {
		if v, _ := r.Load64(m, i*lineBytes+8); v != want {
			t.Errorf("line %d holds %d, want %d", i, v, want)
		}
	}
	if v, _ := r.Load64(m, 16); v != -want*(killLines-1) {
		t.Errorf("the first line holds %d, want %d", int64(v), -int64(want)*(killLines-1))
	}
	var line [lineBytes]byte
	r.Load(m, wholeLine*lineBytes, line[:])
	for i, b := range line {
		if b != byte(want) {
			t.Errorf("byte %d of the whole line is %d, want %d", i, b, byte(want))
			break
		}
	}
}
