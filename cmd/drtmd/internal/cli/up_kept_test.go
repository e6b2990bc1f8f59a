package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/daemon/planes"
	"drtmd/proto/option"
)

// TestUpGoesOnWithKeptTables, unless nobody has used them, or they are to be given up. Other flags are refused.
func TestUpGoesOnWithKeptTables(t *testing.T) {
	has := composition.BuiltIn()
	cfg := config.Default(has)
	cfg.Data.Options = option.Settings{"durable": "true"}
	other := cfg
	other.Data.Options = option.Settings{"durable": "true", "log-bytes": "2MiB"}
	plain := config.Default(has)
	tables, err := planes.ServingPlan(&cfg, 2).Tables(has)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		runs   int
		forget bool
		nodes  int
		cfg    *config.Config
		goesOn bool
		wrong  string
	}{
		{"used", 1, false, 2, &cfg, true, ""},
		{"not used", 0, false, 2, &other, false, ""},
		{"given up", 1, true, 3, &other, false, ""},
		{"of another number of nodes", 1, false, 3, &cfg, false, "they are of 2 nodes, and --nodes is 3"},
		{"of other options", 1, false, 2, &other, false, "log_bytes 2MiB, not 1MiB"},
		{"logged no more", 1, false, 2, &plain, false, "the nodes would not log transactions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv(runDirVariable, filepath.Join(dir, "run"))
			for i := range 2 {
				state := filepath.Join(dir, fmt.Sprintf("node%d", i), "state")
				if err := os.MkdirAll(state, 0o700); err != nil {
					t.Fatal(err)
				}
				var s data.Store
				if err := s.Load(state); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Replace(data.Held{ID: "a", Partition: i, Partitions: 2, Memory: "m-a", Tables: tables}); err != nil {
					t.Fatal(err)
				}
				for range c.runs {
					if err := s.Use("a"); err != nil {
						t.Fatal(err)
					}
				}
			}
			k := &cluster{app: &app{has: has, log: zap.NewNop()}, dir: dir,
				p: &upFlags{nodes: c.nodes, nodeCfg: c.cfg, forget: c.forget, transport: "shm"}}
			goesOn, err := k.keptTables()
			if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
			if err == nil && goesOn != c.goesOn {
				t.Errorf("goes on: %t", goesOn)
			}
		})
	}
}
