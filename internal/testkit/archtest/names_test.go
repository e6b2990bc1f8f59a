package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drtmd/proto/node"
)

// compositionRoots name protocols; everything else takes them as they describe themselves. The items of
// a paper are of the protocol that it describes.
var compositionRoots = []string{"proto/node/protocols.go", "cmd/drtmd/internal/reproduce/protocols.go"}

// mayImportProtocols are files that use what a protocol's package has beside the protocol.
var mayImportProtocols = []string{
	"proto/scenario/clocks.go", // DrTM's EXPIRED and VALID, by clocks that follow another one
}

// TestNothingComparesAProtocolsName: no literal of the command or of what is above the protocols is a
// protocol's name, or begins with it as a marked step does, and no file there imports a protocol.
func TestNothingComparesAProtocolsName(t *testing.T) {
	var names []string
	for _, p := range node.Protocols() {
		names = append(names, p.Name, p.FamilyName())
	}
	files := 0
	sources(t, func(path, text string) {
		path = strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		above := strings.HasPrefix(path, "cmd/") || strings.HasPrefix(path, "proto/node/") ||
			strings.HasPrefix(path, "proto/scenario/") || strings.HasPrefix(path, "proto/enginetest/")
		if !above || strings.HasSuffix(path, "_test.go") || slices.Contains(compositionRoots, path) {
			return
		}
		files++
		for _, wrong := range namesOfProtocols(t, path, text, names) {
			t.Error(wrong)
		}
	})
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

// namesOfProtocols says where a file names one.
func namesOfProtocols(t *testing.T, path, text string, names []string) (wrong []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[*ast.BasicLit]bool{}
	for _, i := range f.Imports {
		imports[i.Path] = true
		folder := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), Module+"/proto/")
		if slices.Contains(names, folder) && !slices.Contains(mayImportProtocols, path) {
			wrong = append(wrong, path+" imports proto/"+folder+": only the composition root knows protocols")
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || imports[lit] {
			return true
		}
		value, err := strconv.Unquote(lit.Value)
		step, _, _ := strings.Cut(value, ": ")
		if err == nil && (slices.Contains(names, value) || step != value && slices.Contains(names, step)) {
			wrong = append(wrong, set.Position(lit.Pos()).String()+": "+lit.Value+
				" is the name of a protocol: ask what the protocol says of itself instead")
		}
		return true
	})
	return wrong
}

func TestNamesOfProtocolsAreFound(t *testing.T) {
	const text = `package x

import (
	"drtmd/proto/drtm"
	"drtmd/proto/node"
)

// drtm is "drtm" in comments as in help.
var a, b, c, d = drtm.X, "drtm" == y, "drtm: after lock", "use drtm: it is fast"
`
	got := namesOfProtocols(t, "cmd/x.go", text, []string{"drtm", "twopl"})
	if len(got) != 3 || !strings.Contains(got[0], "imports proto/drtm") ||
		!strings.Contains(got[1], `cmd/x.go:9:26: "drtm"`) || !strings.Contains(got[2], "after lock") {
		t.Errorf("found %q", got)
	}
}
