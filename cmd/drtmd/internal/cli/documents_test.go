package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"drtmd/cmd/drtmd/internal/composition"
)

// moduleRoot is the module's folder, seen from this one.
const moduleRoot = "../../../.."

// elsewhere are documented commands that no script of this package can run, or that another test runs
// in full, with where they are tested: a file of the module that must exist.
var elsewhere = map[string]string{
	"drtmd serve": "cmd/drtmd/internal/endtoend/cluster_test.go",
	"drtmd serve --config /etc/drtmd/drtmd.yaml":                                            "scripts/rxe-vm/tests/cluster.sh",
	"drtmd bench --transport ibv --check":                                                   "scripts/test-rxe.sh",
	"drtmd bench --memory # --protocol rtx --index sherman --workload ycsb --mix a --check": "cmd/drtmd/internal/cli/testdata/script/memory.txt",
	"drtmd serve --role memory --memory-size 1GiB":                                          "cmd/drtmd/internal/cli/testdata/script/memory.txt",
	"drtmd reproduce all --quick":                                                           "scripts/soak.sh",
	"drtmd sim --scenario smallbank-steps --every-step":                                     "proto/scenario/scenario_test.go",
	"drtmd sim --scenario small-dnl4 --set script=skew --every-order":                       "proto/scenario/small_test.go",
	"drtmd sim --scenario small-dnl4 --set script=cross,replicas=2 --every-order":           "proto/scenario/small_test.go",
	"drtmd perf --listen # --transport ibv":                                                 "scripts/test-rxe.sh",
	"drtmd perf read --transport ibv --connect #":                                           "scripts/test-rxe.sh",
}

// documentedCommand is a line of a code block that runs drtmd.
type documentedCommand struct {
	place string // file and line
	words []string
}

var number = regexp.MustCompile(`^-?[0-9][0-9a-z.:]*$`)

// bounding are the flags that scripts add to be short.
var bounding = []string{"--duration", "--warmup", "--accounts", "--keys", "--slots", "--jobs"}

// shape is the command without what only bounds its size, and with # for what examples choose
// freely: counts, addresses.
func (c documentedCommand) shape() string {
	var words []string
	for i, w := range c.words {
		switch {
		case slices.Contains(bounding, w) || i > 0 && slices.Contains(bounding, c.words[i-1]):
		case number.MatchString(w):
			words = append(words, "#")
		default:
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

var commandLine = regexp.MustCompile(`^\s*(?:[$#] )?(?:\S+=\S+ )*(?:bin/)?(drtmd [a-z].*)$`)

// codeBlocks calls visit with each line of a Markdown text's code: of fenced blocks, and of those
// that are indented by four blanks. A line that ends with a backslash goes on in the next one.
func codeBlocks(text string, visit func(line int, code string)) {
	fenced, joined := false, ""
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(l, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(l, "    ") {
			joined = ""
			continue
		}
		joined += strings.TrimSuffix(l, "\\")
		if strings.HasSuffix(l, "\\") {
			continue
		}
		visit(i+1, joined)
		joined = ""
	}
}

// splitWords splits as a shell does, without expansions; a comment ends it, and so does prose that
// stands three blanks behind the command.
func splitWords(line string) (words []string) {
	var word strings.Builder
	quoted, inWord, blanks := false, false, 0
	flush := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, inWord, blanks = !quoted, true, 0
		case quoted:
			word.WriteRune(r)
		case r == ' ':
			flush()
			if blanks++; blanks == 3 {
				return words
			}
		case r == '#' && !inWord:
			return words
		default:
			word.WriteRune(r)
			inWord, blanks = true, 0
		}
	}
	flush()
	return words
}

// replays reports whether a command is part of an output: it makes a failure again, at the commit
// that printed it.
func replays(command string) bool { return strings.Contains(command, " --faults '") }

// documents calls visit with README and each document.
func documents(t *testing.T, visit func(place, text string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(moduleRoot, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(moduleRoot, "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Skip("no source on this machine: ", err) // as in the guest, where only binaries run
		}
		place, _ := filepath.Rel(moduleRoot, file)
		visit(place, string(text))
	}
}

// documentedCommands are those of code blocks.
func documentedCommands(t *testing.T) (found []documentedCommand) {
	t.Helper()
	documents(t, func(place, text string) {
		codeBlocks(text, func(_ int, code string) {
			if m := commandLine.FindStringSubmatch(code); m != nil && !replays(m[1]) {
				found = append(found, documentedCommand{place, splitWords(m[1])})
			}
		})
	})
	if len(found) < 20 {
		t.Fatalf("found %d documented commands", len(found))
	}
	return found
}

// Each command line in README and docs names a command, flags and values that exist.
func TestDocumentedCommandsParse(t *testing.T) {
	for _, c := range documentedCommands(t) {
		a := &app{has: composition.BuiltIn(), stdout: io.Discard, stderr: io.Discard}
		found, rest, err := a.root().Find(c.words[1:])
		if err == nil {
			err = found.ParseFlags(rest)
		}
		if err == nil {
			err = found.ValidateArgs(found.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %s: %v", c.place, strings.Join(c.words, " "), err)
		}
	}
}

// A command that a sentence names is there, with its flags.
func TestCommandsNamedInSentencesExist(t *testing.T) {
	named := regexp.MustCompile("`(drtmd [a-z][^`]*)`")
	a := &app{has: composition.BuiltIn(), stdout: io.Discard, stderr: io.Discard}
	root := a.root() // Find parses nothing into it
	documents(t, func(place, text string) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			if i := slices.Index(words, "--"); i > 0 {
				words = words[:i] // behind it is another command
			}
			c, _, err := root.Find(words[1:])
			if err != nil {
				t.Errorf("%s: %s: %v", place, m[1], err)
				continue
			}
			for _, w := range words {
				flag, _, _ := strings.Cut(strings.Trim(w, "[]|"), "=")
				if name, long := strings.CutPrefix(flag, "--"); long && name != "" && name != "help" &&
					c.Flag(name) == nil {
					t.Errorf("%s: %s: %s has no flag %s", place, m[1], c.CommandPath(), flag)
				}
			}
		}
	})
}

// Each documented command is run by a script of this package, with shorter times and fewer seeds,
// or tested elsewhere.
func TestDocumentedCommandsAreRun(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	run := map[string]bool{}
	ran := regexp.MustCompile(`(?m)^(?:\[\S+\] )*(?:exec|exits \d+|eventually|interrupted '[^']*') ` +
		`(drtmd .*?)(?: &)?$`)
	for _, s := range scripts {
		text, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ran.FindAllStringSubmatch(string(text), -1) {
			run[documentedCommand{words: splitWords(m[1])}.shape()] = true
		}
	}
	used := map[string]bool{}
	for _, c := range documentedCommands(t) {
		shape := c.shape()
		used[shape] = true
		if elsewhere[shape] == "" && !run[shape] {
			t.Errorf("%s: no script runs: %s", c.place, shape)
		}
	}
	for shape, where := range elsewhere {
		if _, err := os.Stat(filepath.Join(moduleRoot, where)); err != nil || !used[shape] {
			t.Errorf("elsewhere %q: documented: %v, %v", shape, used[shape], err)
		}
	}
}

// skeleton of a line of output: the words that no run changes. Words with digits are #, several in a
// row are one, and what depends on the machine is left out.
func skeleton(line string) string {
	const causes = "aborted attempts per committed transaction:" // those that there were
	if strings.HasPrefix(line, causes) {
		return causes
	}
	var words []string
	for _, w := range strings.Fields(line) {
		if len(words) == 1 && (words[0] == "machine" || words[0] == "run") {
			break
		}
		if strings.ContainsAny(w, "0123456789") {
			if w = "#"; len(words) > 0 && words[len(words)-1] == w {
				continue
			}
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func skeletons(text string) (lines []string) {
	for l := range strings.Lines(text) {
		if s := skeleton(l); s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

// untilTable is a report of bench up to the end of its table.
func untilTable(report string) string {
	before, behind, _ := strings.Cut(report, "\nall ")
	row, _, _ := strings.Cut(behind, "\n")
	return before + "\nall " + row
}

// documented FILE TEXT [excerpt|table]: the last command printed what the first code block behind the
// text in a document shows: the same lines but for numbers. An excerpt may leave lines out. Of reports whose
// last lines say what became of killed nodes, the lines up to the table are compared.
func documented(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) == 3 && args[2] != "excerpt" && args[2] != "table" {
		ts.Fatalf("usage: documented FILE TEXT [excerpt|table]")
	}
	text := ts.ReadFile(filepath.Join(ts.Getenv("MODULE"), args[0]))
	_, behind, found := strings.Cut(text, args[1])
	block := regexp.MustCompile("(?s)\n```\n(.*?)\n```\n").FindStringSubmatch(behind)
	if !found || block == nil {
		ts.Fatalf("%s has no %q with a code block behind it", args[0], args[1])
	}
	got, shown := ts.ReadFile("stdout"), block[1]
	if len(args) == 3 && args[2] == "table" {
		got, shown = untilTable(got), untilTable(shown)
	}
	excerpt := len(args) == 3 && args[2] == "excerpt"
	lines := skeletons(got)
	for _, want := range skeletons(shown) {
		i := slices.Index(lines, want)
		if i < 0 || i > 0 && !excerpt {
			ts.Fatalf("%s, behind %q: the next line is documented as\n%s\nbut printed was\n%s",
				args[0], args[1], want, strings.Join(lines, "\n"))
		}
		lines = lines[i+1:]
	}
	if len(lines) > 0 && !excerpt {
		ts.Fatalf("%s, behind %q: not documented:\n%s", args[0], args[1], strings.Join(lines, "\n"))
	}
}
