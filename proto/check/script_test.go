package check

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"drtmd/proto/history"
)

// A history as text: a transaction a line, "[worker] from-to[@node] operations[; outcome]".
//
//	w x 5        writes version 5 of key x, with digest 5; w x 5:9 has digest 9
//	r x 5        reads it
//	d x 6        deletes at version 6
//	a x 6        finds it absent; a x 0 without a version
//	s f t        scans from key f to key t
//	+ x 5:3=8    adds 3 to the number in key x, which makes it 8 at version 5; w x 4:#5 writes the number 5
//	p 0 3        begins piece 0 of 3
//
// Versions are numbers, or incarnation.number. Lines of another form say what the tables held:
//
//	load x 1, y 2      before; load alone: nothing
//	final x 2, d y 3   after; d: deleted, p: owed by a coordinator that died
//	part x 2           after, on some of the nodes
//	replica 0@1 x 2    after, of shard 0 on node 1
//	counting           versions leave none out
//
// Operations are separated by commas. Outcomes are committed, user-aborted, aborted and unknown; told, of a
// transaction whose coordinator died after the client was told; and recovered and revoked, which survivors
// decided. A name may follow: "; unknown #7".
// Workers count up from 0 unless given: each line is a worker of its own.
func parse(t testing.TB, text string, clocks ...history.Clock) *history.History {
	t.Helper()
	if len(clocks) == 0 {
		clocks = []history.Clock{{Name: "true"}}
	}
	var segments []*history.Segment
	run := history.Run{Names: history.Names{Tables: []string{"letters"}}}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		if describes(t, &run, line) {
			continue
		}
		line, outcome, _ := strings.Cut(line, ";")
		outcome, name, _ := strings.Cut(outcome, "#")
		times, ops, ok := strings.Cut(line, " ")
		if !ok {
			t.Fatalf("%q", line)
		}
		times, node, _ := strings.Cut(times, "@")
		var start, end int64
		if _, err := fmt.Sscanf(times, "%d-%d", &start, &end); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n, _ := strconv.Atoi(node)
		r := history.NewRecorder(history.Options{Worker: history.WorkerID(len(segments)),
			Node: history.NodeID(n), Clock: clocks[n]})
		x := r.Begin(start)
		if name != "" {
			id, err := strconv.ParseUint(name, 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			x.SetName(id)
		}
		for _, o := range strings.Split(ops, ",") {
			operate(t, x, strings.Fields(o))
		}
		if outcome = strings.TrimSpace(outcome); outcome == "told" {
			x.Told(end)
		} else {
			r.End(x, end, outcomeOf(t, outcome))
		}
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}
	h, err := history.NewRun(run, segments...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func operate(t testing.TB, x *history.Txn, f []string) {
	t.Helper()
	if len(f) != 3 {
		t.Fatalf("%q", f)
	}
	key := history.Key(f[1][0])
	if f[0] == "s" {
		x.Scan(0, key, history.Key(f[2][0]))
		return
	}
	if f[0] == "p" {
		index, err := strconv.Atoi(f[1])
		count, err2 := strconv.Atoi(f[2])
		if err != nil || err2 != nil {
			t.Fatalf("%q", f)
		}
		x.Piece(index, count)
		return
	}
	if f[0] == "+" {
		what, sum, _ := strings.Cut(f[2], "=")
		version, delta, _ := strings.Cut(what, ":")
		v, _ := versionOf(t, version)
		by, err := strconv.ParseInt(delta, 10, 64)
		makes, err2 := strconv.ParseInt(sum, 10, 64)
		if err != nil || err2 != nil {
			t.Fatalf("%q", f)
		}
		x.Add(0, key, v, by, uint64(makes))
		return
	}
	v, d := versionOf(t, f[2])
	switch f[0] {
	case "r":
		x.Read(0, key, v, d)
	case "w":
		x.Write(0, key, v, d)
	case "d":
		x.Delete(0, key, v)
	case "a":
		x.ReadAbsent(0, key, v)
	default:
		t.Fatalf("%q", f)
	}
}

// versionOf reads a version and the digest behind it.
func versionOf(t testing.TB, text string) (history.Version, history.Digest) {
	t.Helper()
	number, value, hasValue := strings.Cut(text, ":")
	incarnation, low, whole := strings.Cut(number, ".")
	if !whole {
		incarnation, low = "0", number
	}
	i, err := strconv.ParseUint(incarnation, 10, 32)
	n, err2 := strconv.ParseUint(low, 10, 32)
	if err != nil || err2 != nil {
		t.Fatalf("%q: %v, %v", text, err, err2)
	}
	v := history.NewVersion(uint32(i), uint32(n))
	d := uint64(v)
	if n, ok := strings.CutPrefix(value, "#"); ok {
		number, _ := strconv.ParseUint(n, 10, 64)
		d = uint64(history.DigestOfNumber(number))
	} else if hasValue {
		d, _ = strconv.ParseUint(value, 10, 64)
	}
	return v, history.Digest(d)
}

// describes takes a line that says something about the run and not about a transaction.
func describes(t testing.TB, run *history.Run, line string) bool {
	t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	m := history.Final
	switch word {
	case "counting":
		run.Versions = history.Counting
		return true
	case "load":
		m = history.Initial
	case "final", "part", "replica":
	default:
		return false
	}
	s := history.NewSnapshot(0, m)
	if word == "replica" {
		var r history.Replica
		at, content, _ := strings.Cut(rest, " ")
		if _, err := fmt.Sscanf(at, "%d@%d", &r.Shard, &r.Node); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		s, rest = history.NewReplicaSnapshot(r, m), content
	}
	for _, o := range strings.Split(rest, ",") {
		f := strings.Fields(o)
		state := history.Present
		if len(f) == 3 {
			state = map[string]history.State{"d": history.Deleted, "p": history.Pending}[f[0]]
			f = f[1:]
		}
		if len(f) == 0 {
			continue
		}
		c := history.Content{Key: history.Key(f[0][0]), State: state}
		c.Version, c.Digest = versionOf(t, f[1])
		s.Put(c)
	}
	if m == history.Initial {
		run.Initial = append(run.Initial, s)
	} else {
		run.Final, run.Partial = append(run.Final, s), word == "part"
	}
	return true
}

func outcomeOf(t testing.TB, name string) history.Outcome {
	t.Helper()
	if name == "" {
		return history.Committed
	}
	for o := history.Committed; o < history.OutcomeCount; o++ {
		if o.String() == name {
			return o
		}
	}
	t.Fatalf("no outcome %q", name)
	return 0
}

func check(t testing.TB, h *history.History, o Options) *Result {
	t.Helper()
	r, err := History(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
