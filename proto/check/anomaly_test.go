package check

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"drtmd/proto/history"
)

// Each anomaly is caught by its name, and the same history without it is accepted.
func TestAnomaliesAreCaughtByNameAndTheirRepairsAccepted(t *testing.T) {
	for _, c := range []struct {
		name             string
		broken, repaired string
		want             Anomaly
	}{
		{"lost update: both replaced the same version", `
			0-10 r x 1, w x 2
			5-15 r x 1, w x 3`, `
			0-10 r x 1, w x 2
			5-15 r x 2, w x 3`, LostUpdate},
		{"lost update: both installed the same version", `
			0-10 r x 1, w x 2
			5-15 r x 1, w x 2:9`, `
			0-10 r x 1, w x 2
			5-15 r x 2, w x 3:9`, LostUpdate},
		{"lost update: of a version two before", `
			0-20 r x 1, w x 4
			1-18 r x 1, w x 2
			2-19 r x 2, w x 3`, `
			0-20 r x 3, w x 4
			1-18 r x 1, w x 2
			2-19 r x 2, w x 3`, LostUpdate},
		{"lost update: both inserted what they had not found", `
			0-10 a x 0, w x 1
			5-15 a x 0, w x 2`, `
			0-10 a x 0, w x 1
			5-15 r x 1, w x 2`, LostUpdate},
		{"lost delete", `
			0-10 r x 1, d x 2
			5-15 r x 1, w x 3`, `
			0-10 r x 1, d x 2
			5-15 a x 2, w x 3`, LostUpdate},
		{"aborted read: by the protocol", `
			0-10 r x 1, w x 2; aborted
			5-15 r x 2`, `
			0-10 r x 1, w x 2; aborted
			5-15 r x 1`, AbortedRead},
		{"aborted read: by the user", `
			0-10 w x 2; user-aborted
			5-15 r x 2`, `
			0-10 w x 2; user-aborted
			5-15 r x 1`, AbortedRead},
		{"aborted read: of a value whose version was written again", `
			0-10 w x 2:7; aborted
			11-20 w x 2:8
			5-30 r x 2:7`, `
			0-10 w x 2:7; aborted
			11-20 w x 2:8
			5-30 r x 2:8`, AbortedRead},
		{"aborted read: of a delete", `
			0-10 r x 1, d x 2; aborted
			5-15 a x 2`, `
			0-10 r x 1, d x 2; aborted
			5-15 r x 1`, AbortedRead},
		{"dirty read: of an intermediate version", `
			0-10 w x 2, w x 3
			5-15 r x 2`, `
			0-10 w x 2, w x 3
			5-15 r x 3`, DirtyRead},
		{"dirty read: of an intermediate value of the same version", `
			0-10 w x 2:7, w x 2:8
			5-15 r x 2:7`, `
			0-10 w x 2:7, w x 2:8
			5-15 r x 2:8`, DirtyRead},
		{"torn read: another value than its version's", `
			0-10 w x 2:7
			5-15 r x 2:99`, `
			0-10 w x 2:7
			5-15 r x 2:7`, TornRead},
		{"torn read: a version that nobody wrote", `
			0-10 w x 2
			5-15 r x 3`, `
			0-10 w x 2
			5-15 r x 2`, TornRead},
		{"torn read: two values of the initial version", `
			0-10 r x 1:7
			5-15 r x 1:8`, `
			0-10 r x 1:7
			5-15 r x 1:7`, TornRead},
		{"torn read: two initial versions", `
			0-10 r x 1
			5-15 r x 2`, `
			0-10 r x 1
			5-15 r x 1`, TornRead},
		{"torn read: a value where there was a delete", `
			0-10 r x 1, d x 2
			5-15 r x 2`, `
			0-10 r x 1, d x 2
			5-15 a x 2`, TornRead},
		{"torn read: an absence where there was a value", `
			0-10 w x 2
			5-15 a x 2`, `
			0-10 d x 2
			5-15 a x 2`, TornRead},
		{"torn read: version and value of an aborted write mixed", `
			0-10 w x 2:7; aborted
			5-15 r x 2:1`, `
			0-10 w x 2:7; aborted
			5-15 r x 1`, TornRead},
		{"wrong absence", `
			0-10 r x 1
			20-30 a x 0`, `
			0-10 r x 1, d x 2
			20-30 a x 0`, WrongAbsence},
		{"non-repeatable read", `
			0-10 r x 1, r x 2
			1-9 r x 1, w x 2`, `
			0-10 r x 1, r x 1
			1-9 r x 1, w x 2`, NonRepeatableRead},
		{"fractured read", `
			0-10 r x 2, r y 1
			1-9 w x 2, w y 2`, `
			0-10 r x 2, r y 2
			1-9 w x 2, w y 2`, FracturedRead},
		{"read skew over three", `
			0-30 r x 1, r y 2
			1-20 w x 2
			2-20 r x 2, w y 2`, `
			0-30 r x 2, r y 2
			1-20 w x 2
			2-20 r x 2, w y 2`, ReadSkew},
		{"write skew", `
			0-10 r x 1, r y 1, w x 2
			1-9 r x 1, r y 1, w y 2`, `
			0-10 r x 1, r y 1, w x 2
			1-9 r x 2, r y 1, w y 2`, WriteSkew},
		{"serialization cycle of three", `
			0-10 r x 1, w y 2
			1-11 r y 1, w z 2
			2-12 r z 1, w x 2`, `
			0-10 r x 1, w y 2
			1-11 r y 2, w z 2
			2-12 r z 1, w x 2`, SerializationCycle},
		{"phantom: an absent read and an insert each", `
			0-10 a x 0, w y 1
			1-9 a y 0, w x 1`, `
			0-10 a x 0, w y 1
			1-9 r y 1, w x 1`, Phantom},
		{"phantom: seen by its sibling but not found", `
			0-10 r x 2, a y 0
			1-9 w x 2, w y 1`, `
			0-10 r x 1, a y 0
			1-9 w x 2, w y 1`, Phantom},
		{"phantom: a scan missed it", `
			0-10 s p z, r x 2
			1-9 w x 2, w y 1`, `
			0-10 s p z, r x 2, r y 1
			1-9 w x 2, w y 1`, Phantom},
		{"phantom: the scan of each missed the other's insert", `
			0-10 s p t, w x 1
			1-9 s u z, w q 1`, `
			0-10 s p t, r q 1, w x 1
			1-9 s u z, w q 1`, Phantom},
		{"phantom: at the first key of a range", `
			0-10 s y z, r x 2
			1-9 w x 2, w y 1`, `
			0-10 s z z, r x 2
			1-9 w x 2, w y 1`, Phantom},
		{"phantom: at the last key of a range", `
			0-10 s p y, r x 2
			1-9 w x 2, w y 1`, `
			0-10 s p u, r x 2
			1-9 w x 2, w y 1`, Phantom},
		{"phantom: beside an own insertion in the range", `
			0-10 s p z, w y 1, r x 2
			1-9 w x 2, w q 1`, `
			0-10 s p z, w y 1, r x 2, r q 1
			1-9 w x 2, w q 1`, Phantom},
		{"phantom: of two ranges the second shows what came after the first", `
			0-30 s p t, s u z, r y 1
			1-9 w q 1
			10-19 r q 1, w y 1`, `
			0-30 s p t, s u z, r y 1, r q 1
			1-9 w q 1
			10-19 r q 1, w y 1`, Phantom},
		{"phantom: a row that was moved within a range is seen nowhere", `
			0-10 s p t, a q 2
			1-9 r q 1, d q 2, w r 1`, `
			0-10 s p t, a q 2, r r 1
			1-9 r q 1, d q 2, w r 1`, Phantom},
		{"write cycle", `
			0-10 w x 2, w y 3
			1-9 w x 3, w y 2`, `
			0-10 w x 2, w y 2
			1-9 w x 3, w y 3`, WriteCycle},
		{"circular information flow", `
			0-10 w x 2, r y 2
			1-9 w y 2, r x 2`, `
			0-10 w x 2, r y 1
			1-9 w y 2, r x 2`, InformationCycle},
		{"stale read, wrong in real time only", `
			0-10 r x 1, w x 2
			11-20 r x 1`, `
			0-11 r x 1, w x 2
			11-20 r x 1`, StaleRead},
		{"stale absence", `
			0-10 a x 0, w x 2
			11-20 a x 0`, `
			0-11 a x 0, w x 2
			11-20 a x 0`, StaleRead},
		{"stale absence between two lives", `
			0-5 r x 1, d x 2
			6-10 a x 2, w x 3
			11-20 a x 2`, `
			0-5 r x 1, d x 2
			6-10 a x 2, w x 3
			9-20 a x 2`, StaleRead},
		{"read from the future", `
			0-10 r x 2
			11-20 w x 2`, `
			0-11 r x 2
			11-20 w x 2`, FutureRead},
		{"writes in the wrong order", `
			0-10 w x 3
			11-20 w x 2`, `
			0-10 w x 2
			11-20 w x 3`, RealTimeOrder},
		{"real time by way of a third", `
			0-10 r x 1, w y 2
			11-20 w z 2
			0-30 w x 2, r z 1`, `
			0-10 r x 1, w y 2
			11-20 w z 2
			0-30 w x 2, r z 2`, 0},
		{"real time in a cycle of three", `
			0-10 w z 2
			11-20 r x 1, w y 2
			0-30 w x 2, r z 1`, `
			0-10 w z 2
			11-20 r x 1, w y 2
			0-30 w x 2, r z 2`, RealTimeOrder},
		{"delete and insert again", `
			0-10 r x 1, d x 2
			11-20 a x 2, w x 3
			21-30 r x 1`, `
			0-10 r x 1, d x 2
			11-20 a x 2, w x 3
			21-30 r x 3`, StaleRead},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, parse(t, c.repaired), Options{})
			if r.Verdict != Serializable || len(r.Violations) > 0 {
				t.Errorf("repaired: %v %+v", r.Verdict, r.Violations)
			}
			r = check(t, parse(t, c.broken), Options{})
			if c.want == 0 {
				if r.Verdict != Serializable {
					t.Errorf("%v %+v", r.Verdict, r.Violations)
				}
				return
			}
			if r.Verdict != Violated || len(r.Violations) == 0 ||
				r.Violations[0].Anomaly != c.want || r.Tallies[0].Anomaly != c.want {
				t.Fatalf("%v %+v", r.Verdict, r.Violations)
			}
			t.Log(r.Violations[0].Text)
		})
	}
}

// Clocks with errors e0 and e1 order two transactions only if the gap exceeds e0 + e1.
func TestRealTimeNeedsMoreThanTheErrorsOfBothClocks(t *testing.T) {
	clocks := func(e0, e1 int64) []history.Clock {
		return []history.Clock{{Name: "c", ErrorNs: e0}, {Name: "c", ErrorNs: e1}}
	}
	const stale = "0-100@0 r x 1, w x 2\n%START-900@1 r x 1"
	for _, c := range []struct {
		name   string
		start  string
		clocks []history.Clock
		want   Verdict
	}{
		{"no error, equal", "100", clocks(0, 0), Serializable},
		{"no error, one later", "101", clocks(0, 0), Violated},
		{"error of the end, at the bound", "105", clocks(5, 0), Serializable},
		{"error of the end, beyond", "106", clocks(5, 0), Violated},
		{"error of the start, at the bound", "107", clocks(0, 7), Serializable},
		{"error of the start, beyond", "108", clocks(0, 7), Violated},
		{"both, at the bound", "112", clocks(5, 7), Serializable},
		{"both, beyond", "113", clocks(5, 7), Violated},
		{"clocks that say nothing of each other", "500",
			[]history.Clock{{Name: "a"}, {Name: "b"}}, Serializable},
		{"an error without bound", "500", clocks(math.MaxInt64, math.MaxInt64), Serializable},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := parse(t, strings.Replace(stale, "%START", c.start, 1), c.clocks...)
			if r := check(t, h, Options{}); r.Verdict != c.want {
				t.Errorf("%v %+v", r.Verdict, r.Violations)
			}
		})
	}
}

// Two readings of one clock are ordered by its resolution, however wrong the clock is: a stale read on
// the node that committed is found. Those of two clocks are ordered by their errors.
func TestWithinOneClockItsResolutionDecides(t *testing.T) {
	const ms = 1_000_000
	clock := func(source string) history.Clock {
		return history.Clock{Name: "c", ErrorNs: ms, ResolutionNs: 100, Source: source}
	}
	for _, c := range []struct {
		name   string
		reader string // when and where it starts
		clocks []history.Clock
		want   Verdict
	}{
		{"a microsecond later on the node", "2000-2500@0", []history.Clock{clock("")}, Violated},
		{"as much later as the resolution", "1100-2500@0", []history.Clock{clock("")}, Serializable},
		{"more than that", "1101-2500@0", []history.Clock{clock("")}, Violated},
		{"on another node", "2000-2500@1", []history.Clock{clock(""), clock("")}, Serializable},
		{"on another node, within the errors", "2001000-2500000@1",
			[]history.Clock{clock(""), clock("")}, Serializable},
		{"on another node, beyond the errors", "2001001-2500000@1",
			[]history.Clock{clock(""), clock("")}, Violated},
		{"on another node of the process", "2000-2500@1", []history.Clock{clock("p"), clock("p")},
			Violated},
		{"on another process", "2000-2500@1", []history.Clock{clock("p"), clock("q")}, Serializable},
		{"an error that says more than the resolution", "1001-2500@0",
			[]history.Clock{{Name: "c", ResolutionNs: 100}}, Violated},
		{"sources of two scales", "9000000-9000001@1", []history.Clock{clock("p"),
			{Name: "d", Source: "p"}}, Serializable},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := parse(t, "0-1000@0 r x 1, w x 2\n"+c.reader+" r x 1", c.clocks...)
			r := check(t, h, Options{})
			if r.Verdict != c.want || r.Verdict == Violated && r.Violations[0].Anomaly != StaleRead {
				t.Errorf("%v %+v", r.Verdict, r.Violations)
			}
		})
	}
}

// Two nodes with one clock each are each in order, and in none with each other.
func TestEachClockHasItsOwnRealTime(t *testing.T) {
	clocks := []history.Clock{{Name: "a"}, {Name: "b"}}
	h := parse(t, "0-1@0 r y 1\n0-10@1 r x 1, w x 2\n11-20@1 r x 1", clocks...)
	if r := check(t, h, Options{}); r.Verdict != Violated ||
		r.Violations[0].Anomaly != StaleRead {
		t.Errorf("%+v", r)
	}
}

func TestUnknownCountsExactlyIfOneOfItsWritesWasRead(t *testing.T) {
	for _, c := range []struct {
		name, history string
		verdict       Verdict
		observed      int
	}{
		{"nobody read it", "0-10 r x 1, w x 2; unknown\n20-30 r x 1", Serializable, 0},
		{"nobody read it, its version was used again",
			"0-10 r x 1, w x 2:7; unknown\n20-30 r x 1, w x 2:8\n40-50 r x 2:8", Serializable, 0},
		{"read by a committed one", "0-10 r x 1, w x 2; unknown\n20-30 r x 2", Serializable, 1},
		{"read, and then seen not to be there",
			"0-10 w x 2; unknown\n20-30 r x 2\n40-50 r x 1", Violated, 1},
		{"read in part: the rest counts too",
			"0-10 w x 2, w y 2; unknown\n20-30 r x 2\n40-50 r x 2, r y 1", Violated, 1},
		{"read by an aborted one only",
			"0-10 w x 2; unknown\n20-30 r x 2; aborted\n40-50 r x 1", Serializable, 0},
		{"read by an unknown one that does not count",
			"0-10 w x 2; unknown\n0-30 r x 2, w y 2; unknown\n40-50 r x 1", Serializable, 0},
		{"read by an unknown one that counts",
			"0-10 w x 2; unknown\n0-30 r x 2, w y 2; unknown\n40-50 r y 2", Serializable, 2},
		{"by way of two, against what a third saw",
			"0-10 w x 2; unknown\n0-30 r x 2, w y 2; unknown\n40-50 r y 2, r x 1", Violated, 2},
		{"its delete was made by one that counts",
			"0-10 r x 1, d x 2; unknown\n20-30 r x 1, d x 2\n40-50 a x 0, w x 3", Serializable, 0},
		{"its delete was seen", "0-10 r x 1, d x 2; unknown\n20-30 a x 2", Serializable, 1},
		{"its delete is all that explains an absence",
			"0-10 r x 1, d x 2; unknown\n0-9 r x 1\n20-30 a x 0", Serializable, 1},
		{"that, and the key is there later",
			"0-10 r x 1, d x 2; unknown\n20-30 a x 0\n40-50 r x 1", Violated, 1},
		{"another explains the absence",
			"0-10 a x 0, w x 1\n0-50 r x 1, d x 2; unknown\n0-9 a x 0", Serializable, 0},
		{"its end is infinite: it may come late",
			"0-10 r x 1, w x 2; unknown\n20-30 r x 1\n40-50 r x 2", Serializable, 1},
		{"it does not come before its start",
			"0-10 r x 2\n20-30 r x 1, w x 2; unknown", Violated, 1},
		{"an intermediate write of it is no state",
			"0-10 w x 2, w x 3; unknown\n20-30 r x 2", Violated, 0},
		{"both it and a committed one installed a version",
			"0-10 w x 2:7; unknown\n0-10 w x 2:8\n20-30 r x 2:7", Violated, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, parse(t, c.history), Options{})
			if r.Verdict != c.verdict || len(r.Observed) != c.observed ||
				r.UnknownCommitted != uint64(c.observed) {
				t.Errorf("%v, observed %v: %+v", r.Verdict, r.Observed, r.Violations)
			}
		})
	}
}

func TestUserAbortsAreCheckedOnRequest(t *testing.T) {
	const text = "0-10 r x 2, r y 1; user-aborted\n1-9 w x 2, w y 2"
	if r := check(t, parse(t, text), Options{}); r.Verdict != Serializable || r.Checked != 1 {
		t.Errorf("%+v", r)
	}
	r := check(t, parse(t, text), Options{UserAborts: true})
	if r.Verdict != Violated || r.Violations[0].Anomaly != FracturedRead || r.Checked != 2 ||
		r.UserAborted != 1 || r.Committed != 1 {
		t.Errorf("%+v", r)
	}
}

func TestAbsencesWithoutVersionsArePlaced(t *testing.T) {
	// x is absent, there, absent (2), there (3), absent (4), there (5).
	const lives = "0-10 a x 0, w x 1\n20-30 r x 1, d x 2\n40-50 a x 2, w x 3\n" +
		"60-70 r x 3, d x 4\n80-90 a x 4, w x 5\n"
	for _, c := range []struct {
		name, reader string
		verdict      Verdict
		placed       uint64
	}{
		{"by real time", "31-39 a x 0", Serializable, 0},
		{"before all", "0-5 a x 0", Serializable, 0},
		{"wrong by real time", "51-59 a x 0", Violated, 0},
		{"too late", "91-99 a x 0", Violated, 0},
		{"one of two", "25-65 a x 0", Serializable, 1},
		{"any", "0-100 a x 0", Serializable, 1},
		{"one of two, the other read tells which", "25-65 a x 0, r z 9\n61-62 w z 9", Serializable, 1},
		{"no place left", "25-65 a x 0, r x 3", Violated, 1},
		{"what its own write replaced", "0-100 a x 0, w x 6", Violated, 0},
		{"a scan", "25-65 s w z", Serializable, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, parse(t, lives+c.reader), Options{})
			if r.Verdict != c.verdict || c.placed != r.PlacedAbsences {
				t.Errorf("%v, placed %d: %+v", r.Verdict, r.PlacedAbsences, r.Violations)
			}
		})
	}
}

// TestManyAbsencesArePlacedTogether: a long run has more of them than the graph is built anew.
// Each reader comes after the first life's begin, and the order has it during that life.
func TestManyAbsencesArePlacedTogether(t *testing.T) {
	const keys = attempts + attempts/2
	var text strings.Builder
	for i := range keys {
		k, z, at := string([]byte{byte('@' + i)}), string([]byte{byte(0x80 + i)}), 100*i
		fmt.Fprintf(&text, "%d-%d a %s 0, w %s 1, w %s 1\n", at, at+90, k, k, z)
		fmt.Fprintf(&text, "%d-%d r %s 1, d %s 2\n", at+1, at+90, k, k)
		fmt.Fprintf(&text, "%d-%d a %s 2, w %s 3\n", at+2, at+90, k, k)
		fmt.Fprintf(&text, "%d-%d r %s 3, d %s 4\n", at+3, at+90, k, k)
		fmt.Fprintf(&text, "%d-%d r %s 1, a %s 0\n", at+4, at+90, z, k)
	}
	r := check(t, parse(t, text.String()), Options{})
	if r.Verdict != Serializable || r.PlacedAbsences != keys {
		t.Errorf("%v, placed %d of %d: %+v", r.Verdict, r.PlacedAbsences, keys, r.Violations)
	}
}
