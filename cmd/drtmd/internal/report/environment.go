package report

import (
	"os"
	"strconv"
	"strings"
)

// Environment is what the machine was doing when a run began: it moves measured numbers. What the
// system does not tell is empty or nil.
type Environment struct {
	Governor string `json:"cpu_governor,omitempty"` // of the first CPU's frequency
	// LoadAverage of the last minute: threads that ran or wanted to.
	LoadAverage *float64 `json:"load_average_1m,omitempty"`
}

// ThisEnvironment asks the system.
func ThisEnvironment() Environment {
	return environmentOf("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "/proc/loadavg")
}

func environmentOf(governor, load string) Environment {
	var e Environment
	if b, err := os.ReadFile(governor); err == nil {
		e.Governor = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile(load); err == nil {
		first, _, _ := strings.Cut(string(b), " ")
		if v, err := strconv.ParseFloat(first, 64); err == nil {
			e.LoadAverage = &v
		}
	}
	return e
}
