package workloads

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"drtmd/proto/option"
	"drtmd/proto/workload/workloadtest"
)

// small makes workloads so small that they are checked within a second; others run as they are.
var small = map[string]option.Settings{
	"smallbank": {"accounts": "500"},
	"tatp":      {"subscribers": "2000"},
	"ycsb":      {"keys": "2000", "value-bytes": "64"},
	"retwis":    {"keys": "2000"},
	"opmix":     {"keys": "2000"},
	"tpcc":      {"items": "100", "customers": "30", "orders": "5000"},
}

// TestEachWorkloadIsWhatItSays: names, tables, mix and what is verified.
func TestEachWorkloadIsWhatItSays(t *testing.T) {
	for _, s := range Specs() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if err := workloadtest.CheckSpec(&s, small[s.Name]); err != nil {
				t.Error(err)
			}
		})
	}
}

var update = flag.Bool("update", false, "write docs/WORKLOADS.md anew")

func TestDocumentIsUpToDate(t *testing.T) {
	name := filepath.Join("..", "..", "..", "..", "docs", "WORKLOADS.md")
	want := markdown(Specs())
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != want {
		t.Errorf("%s is not what the workloads say (%v): go test ./cmd/drtmd/internal/workloads -update", name, err)
	}
}

// TestEachOptionIsTaken: with its bounds, where these are no matter of memory, and refused beyond.
func TestEachOptionIsTaken(t *testing.T) {
	for _, s := range Specs() {
		for _, o := range s.Options {
			given := small[s.Name].Clone()
			delete(given, o.Name)
			for _, text := range append(o.Choices, o.Example()) {
				given[o.Name] = text
				if _, err := s.Options.Values(given); err != nil {
					t.Errorf("%s: %v", s.Name, err)
				}
			}
			if o.Low == nil {
				continue
			}
			given[o.Name] = "-1"
			var wrong *option.Error
			if _, _, err := s.Make(2, given); !errors.As(err, &wrong) || wrong.Option != o.Name {
				t.Errorf("%s: %s=-1: %v", s.Name, o.Name, err)
			}
		}
	}
}
