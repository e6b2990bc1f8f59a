package scenario

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// Nothing that a run executes depends on more than its options: no goroutine but the jobs of
// Search, no clock but the world's, no random source but its streams, no order of a map.
func TestTheSourceHasNothingIndeterminate(t *testing.T) {
	entries, err := os.ReadDir(".")
	must(t, err)
	fset := token.NewFileSet()
	files, concurrent := 0, 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, e.Name(), nil, 0)
		must(t, err)
		files++
		jobs := e.Name() == "jobs.go"
		for _, i := range f.Imports {
			switch p := strings.Trim(i.Path.Value, `"`); p {
			case "sync", "sync/atomic", "runtime", "math/rand", "crypto/rand", "os":
				if concurrent++; !jobs {
					t.Errorf("%s imports %s", fset.Position(i.Pos()), p)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			bad := ""
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
				bad = "a goroutine, select or channel"
			case *ast.MapType:
				bad = "a map"
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && (x.Name == "time" && slices.Contains([]string{"Now", "Since", "Sleep",
					"After", "NewTimer", "Tick"}, n.Sel.Name) ||
					x.Name == "rand" && n.Sel.Name != "Rand") {
					bad = x.Name + "." + n.Sel.Name
				}
			}
			if bad != "" {
				t.Errorf("%s: %s", fset.Position(n.Pos()), bad)
			}
			return true
		})
	}
	if files < 10 || concurrent != 1 {
		t.Fatalf("%d files, %d imports: the check does not see the package", files, concurrent)
	}
}
