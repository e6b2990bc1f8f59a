package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// forUsers are exported names that only tests of this module use, because they are for programs that import it, or
// for a library that calls them.
var forUsers = map[string]string{
	"BuiltIn":       "tests of eight packages of the command compose with it (cmd/drtmd/internal/composition)",
	"DeleteValue":   "DLHT with duplicates is for programs that keep an index of their own (store/dlht)",
	"EventsDropped": "whoever reads a context's events learns that there were more (verbs)",
	"HandleConn":    "stats.Handler of gRPC",
	"HandleRPC":     "stats.Handler of gRPC",
	"NewMap":        "DLHT with keys and values of any size is for programs, and for bench-dlht (store/dlht)",
	"OnWrite":       "zapcore.CheckWriteHook",
	"StartForward":  "RPCs whose answer goes to a third node are for protocols that programs bring (verbs/rpc)",
	"TagConn":       "stats.Handler of gRPC",
	"TagRPC":        "stats.Handler of gRPC",
}

// TestExportedNamesHaveAUserOutsideTests: what only tests use is unexported, or a helper of theirs (export_test.go). A
// name counts as used if it occurs in any file but tests beside its declaration, so two of one name hide each other:
// types would take a minute.
func TestExportedNamesHaveAUserOutsideTests(t *testing.T) {
	e := exported{at: map[string]string{}, seen: map[string]int{}}
	sources(t, func(path, text string) {
		path = strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "/testdata/") {
			e.read(t, path, text)
		}
	})
	if len(e.at) < 1000 {
		t.Errorf("only %d exported names were found", len(e.at))
	}
	for name, at := range e.at {
		if e.seen[name] == 1 && forUsers[name] == "" {
			t.Errorf("%s: only tests use %s: unexport it, move it to an export_test.go, or say in forUsers for whom it is",
				at, name)
		}
	}
	for name := range forUsers {
		if e.seen[name] != 1 {
			t.Errorf("%s is listed in forUsers, and occurs %d times outside tests: leave it out", name, e.seen[name])
		}
	}
}

// exported are the exported functions, methods, types and variables of files, but generated ones and those of kits for
// tests, with where each is declared, and how often each identifier occurs.
type exported struct {
	at   map[string]string
	seen map[string]int
}

func (e *exported) read(t *testing.T, path, text string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	kit := strings.HasPrefix(path, "internal/testkit/") || strings.HasSuffix(f.Name.Name, "test") || strings.HasSuffix(path, ".pb.go")
	declare := func(id *ast.Ident) {
		if id.IsExported() && !kit {
			e.at[id.Name] = set.Position(id.Pos()).String()
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			declare(d.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					declare(s.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						if d.Tok == token.VAR {
							declare(id)
						}
					}
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			e.seen[id.Name]++
		}
		return true
	})
}

func TestExportedNamesAreFound(t *testing.T) {
	e := exported{at: map[string]string{}, seen: map[string]int{}}
	e.read(t, "x.go", `package x

// Lonely is only here.
func (x *Used) Lonely() Used { return x.field.Elsewhere() }

type Used struct{ field other }

const Counted = 1

var Alone, _ = 2, Counted
`)
	for name, want := range map[string]int{"Lonely": 1, "Used": 3, "Alone": 1} {
		if e.at[name] == "" || e.seen[name] != want {
			t.Errorf("%s: declared at %q, seen %d times, want %d", name, e.at[name], e.seen[name], want)
		}
	}
	if len(e.at) != 3 || e.seen["Elsewhere"] != 1 {
		t.Errorf("found %v, seen %v", e.at, e.seen)
	}
}
