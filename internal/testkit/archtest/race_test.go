package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Packages of RACE_NOT with goroutines. Of raceSearch the race run has the tests of these, and no others;
// daemons of raceProcesses are processes that share memory, which those of race builds cannot.
const (
	raceSearch    = "drtmd/verbs/scenario"
	raceProcesses = "drtmd/cmd/drtmd/internal/endtoend"
)

// TestWhatTheRaceRunLeavesOutStartsNoGoroutine looks at the packages of RACE_NOT in the Makefile.
func TestWhatTheRaceRunLeavesOutStartsNoGoroutine(t *testing.T) {
	leftOut := raceNot(t)
	seen := 0
	for _, p := range list(t, "1", "./...") {
		if p.ImportPath == raceSearch || p.ImportPath == raceProcesses || !leftOut.MatchString(p.ImportPath) {
			continue
		}
		seen++
		files, err := filepath.Glob(filepath.Join("../../..", strings.TrimPrefix(p.ImportPath, "drtmd/"), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if at := goStatement(t, name); at != "" {
				t.Errorf("%s starts a goroutine, and RACE_NOT in the Makefile leaves its package out of the "+
					"race run: take it from the list", at)
			}
		}
	}
	if seen == 0 {
		t.Errorf("RACE_NOT matches no package: %s", leftOut)
	}
}

// raceNot reads the pattern from the Makefile: its value goes on over lines that end in a backslash,
// and make writes $$ for $, and nothing for $ and the end of a line.
func raceNot(t *testing.T) *regexp.Regexp {
	t.Helper()
	text, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, value, found := strings.Cut(string(text), "\nRACE_NOT := ")
	if !found {
		t.Fatal("the Makefile sets no RACE_NOT")
	}
	value = strings.ReplaceAll(value, "$\\\n\t", "")
	value, _, _ = strings.Cut(value, "\n")
	r, err := regexp.Compile(strings.ReplaceAll(value, "$$", "$"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// goStatement is where a file starts a goroutine, by go or by the Go of a sync.WaitGroup, which has one
// argument (that of a worker of fibers has three); "" if it does not.
func goStatement(t *testing.T, name string) (at string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		starts := false
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			starts = ok && f.Sel.Name == "Go" && len(n.Args) == 1
		}
		if starts {
			at = set.Position(n.Pos()).String()
		}
		return true
	})
	return at
}
