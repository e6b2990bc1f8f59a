package status

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"drtmd/proto/placement"
)

// fields are the names of all fields of a document, those of members left out: the parts of nodes
// count from nodes.
func fields(t reflect.Type, prefix string, found map[string]bool) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() ||
		t == reflect.TypeFor[placement.Map]() {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := prefix + name
		found[path] = true
		inner := path + "."
		switch {
		case path == "nodes":
			inner = ""
		case t.Name() != "Cluster" && f.Type.Name() == "Member", strings.HasSuffix(path, ".members"),
			strings.HasSuffix(path, ".primary"):
			inner = "member."
		}
		fields(f.Type, inner, found)
	}
}

// TestEveryFieldIsDocumented in docs/STATUS.md, and nothing that is not there.
func TestEveryFieldIsDocumented(t *testing.T) {
	const document = "../../../../docs/STATUS.md"
	b, err := os.ReadFile(document)
	if os.IsNotExist(err) {
		t.Skip("no source on this machine: ", err) // as in the guest, where only binaries run
	}
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	found := map[string]bool{}
	fields(reflect.TypeFor[Cluster](), "", found)
	if len(found) < 50 {
		t.Fatalf("found only %d fields", len(found))
	}
	for name := range found {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s is not in %s", name, document)
		}
	}
	if !strings.Contains(text, "`"+Schema+"`") {
		t.Errorf("the schema %s is not in %s", Schema, document)
	}
}
