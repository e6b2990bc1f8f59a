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
//
// Operations are separated by commas. Outcomes are committed, user-aborted, aborted and unknown.
// Workers count up from 0 unless given: each line is a worker of its own.
func parse(t testing.TB, text string, clocks ...history.Clock) *history.History {
	t.Helper()
	if len(clocks) == 0 {
		clocks = []history.Clock{{Name: "true"}}
	}
	var segments []*history.Segment
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		line, outcome, _ := strings.Cut(line, ";")
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
		for _, o := range strings.Split(ops, ",") {
			operate(t, x, strings.Fields(o))
		}
		r.End(x, end, outcomeOf(t, strings.TrimSpace(outcome)))
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}
	h, err := history.New(history.Names{Tables: []string{"letters"}}, segments...)
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
	number, value, hasValue := strings.Cut(f[2], ":")
	v, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("%q: %v", f, err)
	}
	d := v
	if hasValue {
		d, _ = strconv.Atoi(value)
	}
	switch f[0] {
	case "r":
		x.Read(0, key, history.Version(v), history.Digest(d))
	case "w":
		x.Write(0, key, history.Version(v), history.Digest(d))
	case "d":
		x.Delete(0, key, history.Version(v))
	case "a":
		x.ReadAbsent(0, key, history.Version(v))
	default:
		t.Fatalf("%q", f)
	}
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
