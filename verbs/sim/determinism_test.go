package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// What would make a run depend on anything but its seed does not occur in the package.
func TestTheSourceHasNothingIndeterminate(t *testing.T) {
	entries, err := os.ReadDir(".")
	must(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	maps := map[string]bool{} // names of fields and variables that are maps
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, e.Name(), nil, 0)
		must(t, err)
		files = append(files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				if _, ok := n.Type.(*ast.MapType); ok {
					for _, name := range n.Names {
						maps[name.Name] = true
					}
				}
			case *ast.AssignStmt:
				for i, v := range n.Rhs {
					if c, ok := v.(*ast.CompositeLit); ok && i < len(n.Lhs) {
						if _, ok := c.Type.(*ast.MapType); ok {
							maps[lastName(n.Lhs[i])] = true
						}
					}
				}
			}
			return true
		})
	}
	if len(files) < 10 || !maps["byName"] || !maps["seen"] {
		t.Fatalf("%d files, maps %v: the check does not see the package", len(files), maps)
	}
	forbidden := map[string]string{"time.Now": "", "time.Since": "", "time.Sleep": "",
		"time.After": "", "time.NewTimer": "", "time.Tick": "", "rand.Int": "", "rand.IntN": "",
		"rand.Uint64": "", "rand.Float64": "", "rand.Shuffle": "", "rand.Perm": "",
		"rand.Int64N": "", "os.Getpid": "", "runtime.NumGoroutine": ""}
	for _, f := range files {
		for _, i := range f.Imports {
			switch p := strings.Trim(i.Path.Value, `"`); p {
			case "math/rand", "crypto/rand", "sync", "sync/atomic", "context", "runtime",
				"drtmd/verbs/fiber", "drtmd/verbs/shm", "drtmd/verbs/ibv":
				t.Errorf("%s imports %s", fset.Position(i.Pos()), p)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			bad := ""
			switch n := n.(type) {
			case *ast.GoStmt:
				bad = "a goroutine"
			case *ast.SelectStmt:
				bad = "a select"
			case *ast.ChanType:
				bad = "a channel"
			case *ast.RangeStmt:
				if maps[lastName(n.X)] {
					bad = "a range over the map " + lastName(n.X)
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok {
					if _, ok := forbidden[x.Name+"."+n.Sel.Name]; ok {
						bad = x.Name + "." + n.Sel.Name
					}
				}
			}
			if bad != "" {
				t.Errorf("%s: %s", fset.Position(n.Pos()), bad)
			}
			return true
		})
	}
}

// lastName is the name of a variable or field.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// Two worlds that run by turns do not disturb each other.
func TestWorldsShareNothing(t *testing.T) {
	alone := randomStorm(t, 3)
	alone.run()
	one, two := randomStorm(t, 3), randomStorm(t, 4)
	for one.w.RunOne(Forever) {
		two.w.RunOne(Forever)
	}
	if one.w.Hash() != alone.w.Hash() {
		t.Error("a world that ran beside another has another trace")
	}
}
