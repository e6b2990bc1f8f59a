package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto/history"
)

// saveHistory records transactions of worker 7 and saves them.
func saveHistory(t *testing.T, record func(r *history.Recorder)) string {
	t.Helper()
	r := history.NewRecorder(history.Options{Worker: 7, Node: 2,
		Clock: history.Clock{Name: "true time"}})
	record(r)
	s, err := r.Close()
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.New(history.Names{Tables: []string{"checking"}, Kinds: []string{"deposit"}}, s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.hist")
	if err := h.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// update records that version v of key 5 was replaced.
func update(r *history.Recorder, start, end int64, v history.Version, o history.Outcome) {
	x := r.Begin(start)
	x.Read(0, 5, v, history.Digest(v))
	x.Write(0, 5, v+1, history.Digest(v+1))
	r.End(x, end, o)
}

func look(r *history.Recorder, start, end int64, v history.Version, o history.Outcome) {
	x := r.Begin(start)
	x.Read(0, 5, v, history.Digest(v))
	r.End(x, end, o)
}

func runCheck(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, composition.BuiltIn(), append([]string{"check"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCheckSaysTheVerdictAndExitsByIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		record func(r *history.Recorder)
		flags  []string
		code   int
		want   []string
	}{
		{"serializable", func(r *history.Recorder) {
			update(r, 0, 10, 1, history.Committed)
			update(r, 20, 30, 2, history.Committed)
			update(r, 20, 30, 2, history.Aborted)
		}, nil, exitDone, []string{"strictly serializable: yes (2 transactions)\n",
			"3 transactions on 1 node\n", "2 committed, 0 user-aborted, 1 aborted, 0 unknown",
			`node 2: "true time", within 0s`}},
		{"empty", func(*history.Recorder) {}, nil, exitDone,
			[]string{"strictly serializable: yes (0 transactions)\n"}},
		{"lost update", func(r *history.Recorder) {
			update(r, 0, 10, 1, history.Committed)
			update(r, 0, 10, 1, history.Committed)
		}, nil, exitViolation, []string{"strictly serializable: NO (2 transactions)",
			"lost update x 1", "lost update: T1 and T2 both wrote version 0.2 of checking key 5",
			"T1: deposit 7.1 on node 2, committed, from 0s to 10ns"}},
		{"what a user abort read is an answer", func(r *history.Recorder) {
			update(r, 0, 10, 1, history.Committed)
			look(r, 20, 30, 1, history.UserAborted)
		}, nil, exitViolation, []string{"stale read: ", "before T2", "then T2 wrote version 0.2"}},
		{"unless asked for not to be", func(r *history.Recorder) {
			update(r, 0, 10, 1, history.Committed)
			look(r, 20, 30, 1, history.UserAborted)
		}, []string{"--user-aborts=false"}, exitDone, []string{": yes (1 transactions)"}},
		{"undecided", func(r *history.Recorder) { // which of the two was seen?
			look(r, 0, 1, 1, history.Committed)
			update(r, 0, 0, 1, history.Unknown)
			update(r, 0, 0, 1, history.Unknown)
			look(r, 2, 3, 2, history.Committed)
			look(r, 4, 5, 1, history.Committed)
		}, nil, exitViolation, []string{"strictly serializable: undecided"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := saveHistory(t, c.record)
			code, out, errs := runCheck(t.Context(), append(c.flags, path)...)
			if code != c.code || (code == exitDone) != (errs == "") {
				t.Errorf("exit code %d, not %d: %s", code, c.code, errs)
			}
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("no %q in\n%s", w, out)
				}
			}
		})
	}
}

func TestCheckPrintsADocument(t *testing.T) {
	path := saveHistory(t, func(r *history.Recorder) {
		update(r, 0, 10, 1, history.Committed)
		look(r, 20, 30, 1, history.Committed)
	})
	code, out, errs := runCheck(t.Context(), path, "--json")
	if code != exitViolation || !strings.Contains(errs, "drtmd: check failed: violated") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	var d struct {
		Schema, File, Verdict string
		Transactions, Checked int
		Nodes                 []history.Node
		Violations            []struct {
			Anomaly      string
			Transactions []struct{ ID, Type string }
			Steps        []struct {
				Relation string
				On       *struct{ Table, Read, Wrote string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	v := d.Violations
	if d.Schema != CheckSchema || d.File != path || d.Verdict != "violated" ||
		d.Transactions != 2 || d.Checked != 2 || len(d.Nodes) != 1 || len(v) != 1 ||
		v[0].Anomaly != "stale read" || len(v[0].Transactions) != 2 || len(v[0].Steps) != 2 ||
		v[0].Steps[0].Relation != "rw" || v[0].Steps[0].On.Wrote != "0.2" ||
		v[0].Steps[1].Relation != "real time" || v[0].Steps[1].On != nil {
		t.Errorf("%s", out)
	}
}

func TestCheckRefusesWhatIsNoHistory(t *testing.T) {
	path := saveHistory(t, func(r *history.Recorder) { update(r, 0, 10, 1, history.Committed) })
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := path + ".cut"
	content[len(content)-40] ^= 1 // in the last block
	damaged := path + ".damaged"
	other := path + ".other"
	for p, b := range map[string][]byte{cut: content[:len(content)-50], damaged: content,
		other: []byte("package cli\n\n// This is a text and no history of transactions.\n")} {
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, want string
		args       []string
		code       int
	}{
		{"no file", "takes one file, not 0 arguments; see drtmd check --help", nil, exitUsage},
		{"two files", "takes one file, not 2 arguments", []string{path, path}, exitUsage},
		{"an unknown flag", "did you mean --json?", []string{"--jsno", path}, exitUsage},
		{"a file that is not there", "no such file", []string{path + ".none"}, exitFailed},
		{"another file", "at offset 0: not a history", []string{other}, exitFailed},
		{"a folder", "is a folder; name a file that drtmd bench --history has written", []string{t.TempDir()}, exitFailed},
		{"cut short", "cut short; copy the file again", []string{cut}, exitFailed},
		{"damaged", "does not match its checksum", []string{damaged}, exitFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runCheck(t.Context(), c.args...)
			if code != c.code || out != "" || !strings.Contains(errs, c.want) {
				t.Errorf("exit code %d, not %d: %s%s", code, c.code, errs, out)
			}
		})
	}
}

func TestInterruptedCheckExits130(t *testing.T) {
	path := saveHistory(t, func(r *history.Recorder) { update(r, 0, 10, 1, history.Committed) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out, errs := runCheck(ctx, path)
	if code != exitInterrupted || out != "" || errs != "drtmd: interrupted\n" {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
}
