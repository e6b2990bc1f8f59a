package check

import (
	"strings"
	"testing"
)

// False histories that versions, digests and real time alone do not give away; each with one that
// differs in the fault only.
func TestWhatTablesHeldAndCountedVersionsGiveAway(t *testing.T) {
	for _, c := range []struct {
		name             string
		broken, repaired string
		want             Anomaly
		says             string
	}{
		{"a lost write between two", `
			counting
			0-10 r x 1.0
			20-30 w x 1.2`, `
			counting
			0-10 r x 1.0
			11-12 w x 1.1
			20-30 w x 1.2`, LostWrite, "wrote version 1.2 of letters key 120, which takes a write " +
			"before it with version 1.1"},
		{"a lost write after what was loaded", `
			counting
			load x 1.0
			20-30 w x 1.2`, `
			counting
			load x 1.0
			20-30 w x 1.1`, LostWrite, ""},
		{"a lost insertion of what was not loaded", `
			counting
			load
			20-30 w x 1.1`, `
			counting
			load
			20-30 w x 1.0`, LostWrite, "version 1.0"},
		{"a lost write that was aborted", `
			counting
			load x 1.0
			0-5 w x 1.1; aborted
			20-30 w x 1.2`, `
			counting
			load x 1.0
			0-5 w x 1.1; aborted
			20-30 w x 1.1`, LostWrite, ""},
		{"a lost delete", `
			counting
			load x 1.0
			20-30 w x 3.0`, `
			counting
			load x 1.0
			0-10 d x 2.0
			20-30 w x 3.0`, LostWrite, "takes a delete before it with version 2.0"},
		{"a lost insertion before a delete", `
			counting
			load
			20-30 d x 2.0`, `
			counting
			load
			0-10 w x 1.0
			20-30 d x 2.0`, LostWrite, ""},
		{"a life lost", `
			counting
			load x 1.0
			20-30 d x 4.0`, `
			counting
			load x 1.0
			0-1 d x 2.0
			2-3 w x 3.0
			20-30 d x 4.0`, LostWrite, ""},
		{"a lost write at the greatest number", `
			counting
			load x 1.4294967294
			20-30 w x 3.0`, `
			counting
			load x 1.4294967294
			0-10 w x 1.4294967295
			20-30 w x 3.0`, LostWrite, ""},
		{"a version that nobody wrote and that was not loaded", `
			load y 1
			0-10 r x 7`, `
			load x 7, y 1
			0-10 r x 7`, TornRead, "and it was not loaded"},
		{"a value that nobody wrote and that was not loaded", `
			load x 7:1
			0-10 r x 7:2`, `
			load x 7:1
			0-10 r x 7:1`, TornRead, ""},
		{"a loaded key that is not found", `
			load x 7
			0-10 a x 0`, `
			load y 7
			0-10 a x 0`, WrongAbsence, ""},
		{"a loaded key that nothing names and a scan does not find", `
			load x 7
			0-10 s a z`, `
			load x 7
			0-10 s a w`, WrongAbsence, ""},
		{"a tombstone that nobody left", `
			load
			0-10 a x 2`, `
			load
			0-10 a x 0`, TornRead, ""},
		{"a write below what was loaded", `
			load x 7
			0-10 w x 6`, `
			load x 5
			0-10 w x 6`, LostUpdate, "held a version as new"},
		{"an unknown transaction half seen behind a blind overwrite", `
			counting
			load x 1.0, y 1.0
			0-10 w x 1.1, w y 1.1; unknown
			20-30 w x 1.2
			40-50 r y 1.0`, `
			counting
			load x 1.0, y 1.0
			0-10 w x 1.1, w y 1.1; unknown
			20-30 w x 1.2
			40-50 r y 1.1`, RealTimeOrder, ""},
		{"an unknown delete half seen behind an insertion", `
			counting
			load x 1.0, y 1.0
			0-10 d x 2.0, w y 1.1; unknown
			20-30 w x 3.0
			40-50 r y 1.0`, `
			counting
			load x 1.0, y 1.0
			0-10 d x 2.0, w y 1.1; unknown
			20-30 w x 3.0
			40-50 r y 1.1`, RealTimeOrder, ""},
		{"the last write is not in the tables", `
			load x 1
			0-10 w x 2
			final x 1`, `
			load x 1
			0-10 w x 2
			final x 2`, LostWrite, "the tables hold version 0.1 of letters key 120, but the last that " +
			"counts is T1, which wrote version 0.2"},
		{"the last insertion is not in the tables", `
			load
			0-10 w x 2
			final`, `
			load
			0-10 w x 2
			part`, LostWrite, "the tables hold no letters key 120"},
		{"the last delete is not in the tables", `
			load x 1
			0-10 d x 2
			final x 1`, `
			load x 1
			0-10 d x 2
			final`, LostWrite, ""},
		{"another value is in the tables", `
			0-10 w x 2:5
			final x 2:6`, `
			0-10 w x 2:5
			final x 2:5`, WrongContent, "digests"},
		{"what nobody wrote is in the tables", `
			load x 1
			0-10 r x 1
			final x 2`, `
			load x 1
			0-10 r x 1
			final x 1`, WrongContent, "version 0.1 was there before, and nobody replaced it"},
		{"what was aborted is in the tables", `
			load x 1
			0-10 w x 2; aborted
			final x 2`, `
			load x 1
			0-10 w x 2; aborted
			final x 1`, WrongContent, ""},
		{"a key that no transaction names has changed", `
			load x 1, y 1
			0-10 r x 1
			final x 1, y 2`, `
			load x 1, y 1
			0-10 r x 1
			final x 1, y 1`, WrongContent, ""},
		{"a key that no transaction names has gone", `
			load x 1, y 1
			0-10 r x 1
			final x 1`, `
			load x 1, y 1
			0-10 r x 1
			part x 1`, WrongContent, "the tables hold no letters key 121"},
		{"a key that no transaction names has come", `
			load x 1
			0-10 r x 1
			final x 1, y 2`, `
			load x 1, y 2
			0-10 r x 1
			final x 1, y 2`, WrongContent, "which was not there before"},
		{"a delete of nobody's", `
			load x 1
			0-10 r x 1
			final d x 2`, `
			load x 1
			0-10 d x 2
			final d x 2`, WrongContent, ""},
		{"an unknown transaction half in the tables", `
			load x 1, y 1
			0-10 w x 2, w y 2; unknown
			final x 2, y 1`, `
			load x 1, y 1
			0-10 w x 2, w y 2; unknown
			final x 2, y 2`, LostWrite, ""},
		{"an unknown delete half in the tables", `
			load x 1, y 1
			0-10 d x 2, w y 2; unknown
			final y 1`, `
			load x 1, y 1
			0-10 d x 2, w y 2; unknown
			final y 2`, LostWrite, ""},
		{"a read that the end contradicts", `
			0-10 w x 2; unknown
			20-30 r x 2
			final x 1`, `
			0-10 w x 2; unknown
			20-30 r x 1
			final x 1`, LostWrite, ""},
		{"two writes behind", `
			load x 1
			0-10 w x 2
			20-30 w x 3
			final p x 1`, `
			load x 1
			0-10 w x 2
			20-30 w x 3
			final p x 2`, LostWrite, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, parse(t, c.repaired), Options{})
			if r.Verdict != Serializable || len(r.Violations) > 0 {
				t.Errorf("repaired: %v %+v", r.Verdict, r.Violations)
			}
			r = check(t, parse(t, c.broken), Options{})
			if r.Verdict != Violated || len(r.Violations) == 0 ||
				r.Violations[0].Anomaly != c.want || r.Tallies[0].Anomaly != c.want ||
				!strings.Contains(r.Violations[0].Text, c.says) {
				t.Fatalf("%v %+v", r.Verdict, r.Violations)
			}
			t.Log(r.Violations[0].Text)
		})
	}
}

// True histories that come near to the false ones.
func TestWhatLooksLikeALostWriteAndIsNone(t *testing.T) {
	for _, c := range []struct {
		name, history string
		observed      int
	}{
		{"versions that only grow", "load x 1\n0-10 w x 5\nfinal x 5", 0},
		{"an aborted attempt whose version was used again",
			"counting\nload x 1.0\n0-10 w x 1.1:7; aborted\n11-20 w x 1.1:8\n21-30 w x 1.2\nfinal x 1.2", 0},
		{"an unknown one whose version was used again",
			"counting\nload x 1.0\n0-10 w x 1.1:7; unknown\n11-20 w x 1.1:8\n21-30 w x 1.2\nfinal x 1.2", 0},
		{"an unknown one that nobody saw", "counting\nload x 1.0\n0-10 w x 1.1; unknown\nfinal x 1.0", 0},
		{"an unknown one below a write", "counting\nload x 1.0\n0-10 w x 1.1; unknown\n11-20 w x 1.2\n" +
			"final x 1.2", 1},
		{"two unknown ones below a write", "counting\nload x 1.0\n0-10 w x 1.1; unknown\n" +
			"0-10 w x 1.2; unknown\n11-20 w x 1.3\nfinal x 1.3", 2},
		{"either of two unknown ones below a write", "counting\nload x 1.0\n0-10 w x 1.1:5; unknown\n" +
			"0-10 w x 1.1:6; unknown\n11-20 w x 1.2\nfinal x 1.2", 1},
		{"the second of two unknown ones that wrote alike", "counting\nload x 1.0, y 1.0\n" +
			"0-10 w x 1.1, w y 1.1; unknown\n0-10 w x 1.1; unknown\n20-30 r x 1.1\n40-50 r y 1.0\n" +
			"final x 1.1, y 1.0", 1},
		{"the first of two unknown ones that wrote alike, and the second of two others: a committed one wrote more of the rest",
			"counting\nload x 1.0, y 1.0, p 1.0, q 1.0\n" +
				"0-10 w x 1.1, w p 1.1; unknown\n0-10 w x 1.1; unknown\n0-10 w y 1.1; unknown\n0-10 w y 1.1, w q 1.1; unknown\n" +
				"11-15 w p 1.1, w q 1.1\n20-30 r x 1.1, r y 1.1\nfinal x 1.1, y 1.1, p 1.1, q 1.1", 2},
		{"the first of two unknown ones that wrote alike, and the second of two others: the tables lack what the rest wrote",
			"counting\nload x 1.0, y 1.0, p 1.0, q 1.0\n" +
				"0-10 w x 1.1; unknown\n0-10 w x 1.1, w p 1.1; unknown\n0-10 w y 1.1, w q 1.1; unknown\n0-10 w y 1.1; unknown\n" +
				"20-30 r x 1.1, r y 1.1\nfinal x 1.1, y 1.1, p 1.0, q 1.0", 2},
		{"a life of two unknown ones below a delete", "counting\nload x 1.0\n0-10 d x 2.0; unknown\n" +
			"0-10 w x 3.0; unknown\n11-20 d x 4.0\nfinal", 2},
		{"a blind delete leaves open what was before it",
			"counting\nload x 1.0\n0-10 w x 1.1; unknown\n11-20 d x 2.0\nfinal d x 2.0", 0},
		{"an insertion of a key whose entry was given back",
			"counting\nload x 1.0\n0-10 d x 2.0\n20-30 a x 0, w x 9.0\nfinal x 9.0", 0},
		{"a first insertion where others were deleted before",
			"counting\nload\n20-30 a x 0, w x 9.0\nfinal x 9.0", 0},
		{"a number that wraps", "counting\nload x 1.4294967295\n0-10 w x 3.0\nfinal x 3.0", 0},
		{"several writes by one", "counting\nload x 1.0\n0-10 w x 1.1, w x 1.2, d x 2.0\nfinal", 0},
		{"nothing known of the beginning", "counting\n0-10 w x 1.7\n20-30 w x 1.8", 0},
		{"only the end is known", "0-10 r y 1\nfinal x 1, y 1", 0},
		{"a write that is owed", "load x 1\n0-10 w x 2\nfinal p x 1", 0},
		{"a write that is owed, its value half made", "load x 1\n0-10 w x 2\nfinal p x 2:99", 0},
		{"a write that is owed, its value half made before its version",
			"load x 1\n0-10 w x 2\nfinal p x 1:99", 0},
		{"a write that is owed and that nobody saw", "load x 1\n0-10 w x 2; unknown\nfinal p x 1", 0},
		{"a write that is owed and begun", "load x 1, y 1\n0-10 w x 2, w y 2; unknown\n" +
			"final p x 2:99, p y 1", 1},
		{"an insertion that is owed", "counting\nload\n0-10 w x 1.0\nfinal p x 0.2", 0},
		{"a delete that is owed", "counting\nload x 1.0\n0-10 d x 2.0\nfinal p x 1.0", 0},
		{"an insertion that is owed and that nobody saw",
			"counting\nload\n0-10 w x 1.0; unknown\nfinal p x 0.2", 0},
		{"an unknown delete below an insertion that was not begun",
			"counting\nload x 1.0\n0-10 d x 2.0; unknown\nfinal p x 2.2", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, parse(t, c.history), Options{})
			if r.Verdict != Serializable || len(r.Violations) > 0 || len(r.Observed) != c.observed {
				t.Errorf("%v, observed %v: %+v", r.Verdict, r.Observed, r.Violations)
			}
		})
	}
}

// A key in two places is a fault of the recording: no verdict.
func TestContentWithAKeyTwiceIsRefused(t *testing.T) {
	_, err := History(t.Context(), parse(t, "load x 1, x 2\n0-1 r x 1"), Options{})
	if err == nil || !strings.Contains(err.Error(), "letters key 120 occurs twice") {
		t.Errorf("%v", err)
	}
}
