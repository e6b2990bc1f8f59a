package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the module's folder, seen from this one.
const root = "../../.."

// documents are the Markdown files of the module, by path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skip("no source on this machine: ", err) // as in the guest, where only binaries run
	}
	docs := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			docs[strings.TrimPrefix(n, root+"/")] = string(b)
		}
	}
	if len(docs) < 2 {
		t.Fatalf("found %d documents below %s", len(docs), root)
	}
	return docs
}

// tests are the names of all test functions.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	sources(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
	})
	return found
}

// sources visits every Go file of the module.
func sources(t *testing.T, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || d.IsDir():
			return nil
		}
		b, err := os.ReadFile(path)
		visit(path, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A test that is named as proof has to be there: it may have been renamed since.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	docs := documents(t)
	known := tests(t)
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	count := 0
	for doc, text := range docs {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if count++; !known[m[1]] {
				t.Errorf("%s names %s, which no package has", doc, m[1])
			}
		}
	}
	if count == 0 {
		t.Error("no document names a test")
	}
}

// Links between documents lead to files, from where the document is.
func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for doc, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}

// A comment that cites a design decision leads to one.
func TestCitedDesignDecisionsExist(t *testing.T) {
	known := map[string]bool{}
	heading := regexp.MustCompile(`(?m)^## Decision (\d+): `)
	for _, m := range heading.FindAllStringSubmatch(documents(t)["docs/DESIGN.md"], -1) {
		known[m[1]] = true
	}
	cited := regexp.MustCompile(`(?i)\bdesign(?:\n\s*//)? decision (\d+)`)
	bare := regexp.MustCompile(`(?i)(\w+),?[\s/]+decision \d+`)
	count := 0
	sources(t, func(path, text string) {
		for _, m := range cited.FindAllStringSubmatch(text, -1) {
			if count++; !known[m[1]] {
				t.Errorf("%s cites design decision %s, which docs/DESIGN.md lacks", path, m[1])
			}
		}
		for _, m := range bare.FindAllStringSubmatch(text, -1) {
			if !strings.EqualFold(m[1], "design") {
				t.Errorf("%s: %q: write \"design decision\", so that readers find docs/DESIGN.md",
					path, m[0])
			}
		}
	})
	if count == 0 || len(known) == 0 {
		t.Errorf("%d citations of %d decisions", count, len(known))
	}
}

// The map has every package, and no other.
func TestArchitectureListsEveryPackage(t *testing.T) {
	text := documents(t)["docs/ARCHITECTURE.md"]
	_, rest, _ := strings.Cut(text, "```\n")
	block, _, _ := strings.Cut(rest, "```")
	listed := map[string]bool{}
	for _, line := range strings.Split(block, "\n") {
		for _, word := range strings.Fields(line) {
			for _, p := range expand(strings.TrimSuffix(word, ",")) {
				listed[p] = true
			}
			if !strings.HasSuffix(word, ",") {
				break
			}
		}
	}
	delete(listed, "|")
	for _, p := range list(t, "1", "./...") {
		folder := relative(p.ImportPath)
		if !listed[folder] {
			t.Errorf("docs/ARCHITECTURE.md does not list %s", folder)
		}
		delete(listed, folder)
	}
	for p := range listed {
		t.Errorf("docs/ARCHITECTURE.md lists %s, which is no package", p)
	}
}

// expand gives a/b and a/c for a/{b,c}.
func expand(word string) (all []string) {
	before, rest, braces := strings.Cut(word, "{")
	inside, after, _ := strings.Cut(rest, "}")
	if !braces {
		return []string{word}
	}
	for _, x := range strings.Split(inside, ",") {
		all = append(all, before+x+after)
	}
	return all
}
