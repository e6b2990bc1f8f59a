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
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			found[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
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
