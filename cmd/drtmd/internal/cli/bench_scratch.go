package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/transport"
)

// makeScratch makes the folder for what a run records beyond memory, and for the histories of several
// processes. It is made before the run, so that no result is lost for want of it: in the system's
// temporary folder, or else beside the run directory, which is memory.
func (r *benchRun) makeScratch() error {
	if !r.recorded() && r.flags.processes == 1 && r.client == nil {
		return nil
	}
	const name = "drtmd-bench-"
	var err error
	if r.scratch, err = os.MkdirTemp("", name); err == nil {
		return nil
	}
	beside := filepath.Dir(transport.RunDir("default"))
	if r.flags.runDir != "" {
		beside = filepath.Dir(filepath.Clean(r.flags.runDir))
	}
	otherwise := os.MkdirAll(beside, 0o700)
	if otherwise == nil {
		r.scratch, otherwise = os.MkdirTemp(beside, name)
	}
	if otherwise != nil {
		return fmt.Errorf("temporary folder for histories: %w, and beside the run directory: %w; set "+
			"TMPDIR to a folder that you may write to", err, otherwise)
	}
	r.log.Warn("the temporary folder cannot be written: histories go beside the run directory, into "+
		"memory; TMPDIR names another one", zap.String("folder", r.scratch), zap.Error(err))
	return nil
}

// spillDir is the scratch folder; a process that a supervisor has started has it as TMPDIR.
func (r *benchRun) spillDir() string {
	if r.scratch == "" {
		return os.TempDir()
	}
	return r.scratch
}
