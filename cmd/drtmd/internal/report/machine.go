package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Version of drtmd.
const Version = "0.1.0"

// Build says what this binary is made of.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, "+dirty" if changed since
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Cgo      bool   `json:"cgo"` // without it the ibv transport is left out
	Race     bool   `json:"race_detector,omitempty"`
}

// ThisBuild reads it from the binary.
func ThisBuild() Build {
	b := Build{Version: Version, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		case "CGO_ENABLED":
			b.Cgo = s.Value == "1"
		case "-race":
			b.Race = s.Value == "true"
		}
	}
	if b.Revision != "" {
		b.Revision += dirty
	}
	return b
}

func (b Build) String() string {
	s := "drtmd " + b.Version
	if b.Revision != "" {
		s += " (" + b.Revision + ")"
	}
	s += ", " + b.Go + ", " + b.Platform
	if !b.Cgo {
		s += ", without cgo"
	}
	if b.Race {
		s += ", with race detector"
	}
	return s
}

// Machine is what a measurement ran on.
type Machine struct {
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"` // that this process may use
	GoMaxProcs int    `json:"gomaxprocs"`
	Kernel     string `json:"kernel"`
	Build      Build  `json:"build"`
}

// ThisMachine asks the system.
func ThisMachine() Machine {
	m := Machine{CPU: cpuModel("/proc/cpuinfo"), CPUs: runtime.NumCPU(),
		GoMaxProcs: runtime.GOMAXPROCS(0), Build: ThisBuild()}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	return m
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %d CPUs, GOMAXPROCS %d, %s, %s", m.CPU, m.CPUs, m.GoMaxProcs, m.Kernel,
		m.Build)
}

func cpuModel(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown CPU"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok &&
			strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "unknown CPU"
}
