package cli

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/composition"
)

// eachFlag calls f for every flag of every command.
func eachFlag(c *cobra.Command, f func(c *cobra.Command, flag *pflag.Flag)) {
	c.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) { f(c, flag) })
	for _, sub := range c.Commands() {
		eachFlag(sub, f)
	}
}

// TestValuesThatNoFlagTakes: each flag that takes a time, a number, or the address of a node says what
// is wrong with such a value in words, and what it takes; never in those of a parser.
func TestValuesThatNoFlagTakes(t *testing.T) {
	tried := 0
	try := func(c *cobra.Command, flag *pflag.Flag, value string, code int, wants ...string) {
		t.Helper()
		tried++
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(c.CommandPath())[1:], "--"+flag.Name+"="+value)
		args = append(args, map[string][]string{"chop": {"smallbank"}, "report": {"none"}}[c.Name()]...)
		got := run(context.Background(), composition.BuiltIn(), args, &stdout, &stderr)
		text := stderr.String()
		for _, want := range wants {
			if got != code || !strings.Contains(text, want) {
				t.Errorf("%v: exit code %d: %s, want %q", args, got, text, want)
			}
		}
		for _, raw := range []string{"strconv.", "time:", "dial tcp", "desc =", "invalid argument"} {
			if strings.Contains(text, raw) {
				t.Errorf("%v: words of a parser, %q: %s", args, raw, text)
			}
		}
	}
	eachFlag((&app{has: composition.BuiltIn()}).root(), func(c *cobra.Command, flag *pflag.Flag) {
		switch flag.Value.Type() {
		case "duration":
			try(c, flag, "9999999h", exitUsage, "--"+flag.Name+" 9999999h is too long: the longest time is 87600h")
			try(c, flag, "2000000h", exitUsage, "--"+flag.Name+" 2000000h", " is too long: the longest time is 87600h")
			try(c, flag, "5", exitUsage, "is not a time with its unit, such as 500ms or 2s")
		case "float64":
			try(c, flag, "abc", exitUsage, "--"+flag.Name+` "abc" is not a number, such as 0.5`)
			try(c, flag, "NaN", exitUsage, "--"+flag.Name+" NaN is not a finite number")
			try(c, flag, "Inf", exitUsage, "Inf is not a finite number") // or +Inf
		case "string":
			if namesPath(flag) {
				try(c, flag, "", exitUsage, "--"+flag.Name+` "" is no name of a file or folder; name one, or leave the flag out`)
			}
		}
		if flag.Name != clusterFlag || flag.Value.Type() != "string" {
			return
		}
		if c.Name() == "log" {
			return // it wants a level before
		}
		for _, address := range []string{"127.0.0.1:99999", "127.0.0.1:0", "127.0.0.1:http", "127.0.0.1:"} {
			try(c, flag, address, exitUsage, "address \""+address+
				"\": expected HOST:PORT with a port from 1 to 65535")
		}
		try(c, flag, "unix:", exitUsage, "expected unix:PATH")
		try(c, flag, "lab-1", exitUsage, "expected HOST:PORT or unix:PATH")
	})
	if tried < 40 {
		t.Errorf("tried %d values only", tried)
	}
}

// TestTimesAndNumbersOfSettings are refused likewise.
func TestTimesAndNumbersOfSettings(t *testing.T) {
	for args, want := range map[string]string{
		"--cluster-lease=9999999h":         "--cluster-lease: 9999999h is too long",
		"--cluster-lease=5":                "expected a time, such as 2s or 500ms",
		"--control-rate-per-peer=abc":      "expected a number, not",
		"--control-rate-per-peer=NaN":      "expected 1 to 1000000, not NaN",
		"--cluster-join=127.0.0.1:99999":   "expected HOST:PORT",
		"--control-listen=127.0.0.1:99999": "expected HOST:PORT",
	} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), composition.BuiltIn(), []string{"config", args}, &stdout, &stderr)
		if text := stderr.String(); code != exitUsage || !strings.Contains(text, want) {
			t.Errorf("%s: exit code %d: %s, want %q", args, code, text, want)
		}
	}
}

// TestAFlagIsNoValueOfAnother: --json before a flag goes to standard output, others are refused.
func TestAFlagIsNoValueOfAnother(t *testing.T) {
	root := (&app{has: composition.BuiltIn()}).root()
	for given, want := range map[string]string{
		"bench --json":                          "bench --json=-",
		"bench --json --list":                   "bench --json=- --list",
		"bench --list --json -h":                "bench --list --json=- -h",
		"bench --check --json":                  "bench --check --json=-",
		"bench --duration=1s --json":            "bench --duration=1s --json=-",
		"bench --duration 1s --json":            "bench --duration 1s --json=-",
		"bench --history=--json --json":         "bench --history=--json --json=-",
		"bench --history --json":                "",
		"bench --history --duration=1s":         "",
		"bench --history --no-flag":             "bench --history --no-flag",
		"sim --seed --json":                     "",
		"status --cluster --json":               "",
		"bench --json - --check":                "bench --json - --check",
		"bench --json file --json=-x":           "bench --json file --json=-x",
		"bench -- --json":                       "bench -- --json",
		"report a b --json":                     "report a b --json=-",
		"--log-format json bench --json":        "--log-format json bench --json=-",
		"--log-format --json bench":             "",
		"status --json":                         "status --json",
		"up -- drtmd bench --cluster up --json": "up -- drtmd bench --cluster up --json",
		"bench --unknown --json":                "bench --unknown --json=-",
	} {
		got, err := withValues(root, strings.Fields(given))
		if !slices.Equal(got, strings.Fields(want)) || wrongUse(err) != (want == "") {
			t.Errorf("%s: %v, %v; want %s", given, got, err, want)
		}
	}
}
