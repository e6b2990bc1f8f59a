package reproduce

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/report"
)

// docs is where the pictures of documents are, below pictures, and the document that shows those of papers.
const docs = "../../../../docs"

var (
	numbers = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?(ms|µs|s\b)?`)
	points  = regexp.MustCompile(`(# at #(, )?)+`)
	label   = regexp.MustCompile(`aria-label="([^"]*)"`)
	shown   = regexp.MustCompile(`\]\(pictures/([^)]*)\)`)
)

// form is what a picture says without its numbers: its title, axes, marks and curves.
func form(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := label.FindSubmatch(b)
	if m == nil {
		t.Fatalf("%s has no words", path)
	}
	return points.ReplaceAllString(numbers.ReplaceAllString(string(m[1]), "#"), "#")
}

// checkPictures compares what an item draws with the documents' pictures of it.
func checkPictures(t *testing.T, got *report.Reproduced) {
	t.Helper()
	dir := t.TempDir()
	files, err := (&report.Reproduction{Items: []report.Reproduced{*got}}).WritePlots(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		kept := filepath.Join(docs, "pictures", filepath.Base(f))
		if _, err := os.Stat(kept); err != nil {
			continue // no document shows it
		}
		if now, was := form(t, f), form(t, kept); now != was {
			t.Errorf("%s is out of date: make it anew with the command beside it in docs/PAPERS.md\nit says   %s\nthe figure says %s",
				kept, was, now)
		}
	}
}

// Every picture of the documents is that of an item, which the command beside it makes, and each is shown.
func TestPicturesOfDocumentsHaveTheirCommand(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "PAPERS.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	commands := regexp.MustCompile("`drtmd reproduce ([^`]*) --plots docs/pictures`").FindAllStringSubmatch(words, -1)
	var made, named []string
	for _, c := range commands {
		for _, w := range strings.Fields(c[1]) {
			if strings.Contains(w, "/") {
				made = append(made, strings.ReplaceAll(w, "/", "-")+".svg")
			}
		}
		if items, err := Select(Systems(), strings.Fields(c[1])[:1]); err != nil || len(items) != 1 {
			t.Errorf("%s: %v", c[0], err)
		}
	}
	for _, m := range shown.FindAllStringSubmatch(words, -1) {
		named = append(named, m[1])
	}
	entries, err := os.ReadDir(filepath.Join(docs, "pictures"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	for _, list := range [][]string{made, named, have} {
		slices.Sort(list)
	}
	if len(have) == 0 || !slices.Equal(have, made) || !slices.Equal(have, named) {
		t.Errorf("pictures %q, made by commands %q, shown %q", have, made, named)
	}
}
