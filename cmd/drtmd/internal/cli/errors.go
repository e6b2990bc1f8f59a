package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/bench"
	"drtmd/cmd/drtmd/internal/spelling"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/option"
)

// Exit codes.
const (
	exitDone         = 0
	exitFailed       = 1
	exitUsage        = 2
	exitViolation    = 3 // a check of a run failed
	exitNotTriggered = 4 // the checks held, but a fault of --faults was never triggered
	exitInterrupted  = 130
)

// usageError is a command line that cannot be carried out as it stands.
type usageError struct {
	text string
	hint string // what to do instead; may be empty
}

func (e *usageError) Error() string {
	if e.hint == "" {
		return e.text
	}
	return e.text + "; " + e.hint
}

func usagef(hint, format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...), hint: hint}
}

// wrongUse reports an error of the command line.
func wrongUse(err error) bool {
	var usage *usageError
	return errors.As(err, &usage)
}

// exitCode says how the process ends after err. ctx is that of the command.
func exitCode(ctx context.Context, err error) int {
	var usage *usageError
	var limit *bench.LimitError
	var unknown *transport.UnknownError
	var violation *violationError
	var failed *checkError
	var notTriggered *notTriggeredError
	var command *codeError
	var served *serveError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &command):
		return command.code
	case errors.As(err, &served):
		return exitFailed
	case errors.As(err, &violation), errors.As(err, &failed):
		return exitViolation
	case errors.As(err, &notTriggered):
		return exitNotTriggered
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &limit), errors.As(err, &unknown):
		return exitUsage
	}
	return exitFailed
}

// flagError turns an error of the flag parser into a usage error that names the nearest flag, or
// says what the flag takes.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("see %s --help", c.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near, ok := nearest(unknown.GetSpecifiedName(), names); ok {
			hint = "did you mean --" + near + "?"
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f, text := invalid.GetFlag(), invalid.GetValue()
		if f.Value.Type() == "duration" && option.IsTime(text) {
			return tooLong(f.Name, text)
		}
		if takes := valueKind(f.Value.Type()); takes != "" {
			return usagef(hint, "--%s %q is not %s", f.Name, text, takes)
		}
	}
	return &usageError{text: err.Error(), hint: hint}
}

// valueKind says what flags of a type take, "" if that has no words.
func valueKind(flagType string) string {
	switch flagType {
	case "int":
		return "a whole number"
	case "intSlice":
		return "a whole number, or several with commas between"
	case "uint64":
		return "a whole number from 0 to 18446744073709551615"
	case "duration":
		return "a time with its unit, such as 500ms or 2s"
	case "float64":
		return "a number, such as 0.5"
	case "bool":
		return "true or false"
	}
	return ""
}

// longestTime is the bound of every flag that takes a time: ten years. Times are added up in 64 bits
// of nanoseconds, which are 292 years.
const longestTime = 87_600 * time.Hour

func tooLong(flag, text string) error {
	return usagef("", "--%s %s is too long: the longest time is %.0fh, ten years", flag, text,
		longestTime.Hours())
}

// checkValues refuses values that a flag's type has and no use of it can mean.
func checkValues(f *pflag.FlagSet) (err error) {
	f.Visit(func(f *pflag.Flag) {
		if err != nil {
			return
		}
		text := f.Value.String()
		switch f.Value.Type() {
		case "duration":
			if d, _ := time.ParseDuration(text); d > longestTime || d < -longestTime {
				err = tooLong(f.Name, text)
			}
		case "float64":
			if x, _ := strconv.ParseFloat(text, 64); math.IsNaN(x) || math.IsInf(x, 0) {
				err = usagef("", "--%s %s is not a finite number", f.Name, text)
			}
		case "string":
			if text == "" && namesPath(f) {
				err = usagef("name one, or leave the flag out", "--%s \"\" is no name of a file or folder", f.Name)
			}
		}
	})
	return err
}

// namesPath reports whether a flag takes a file or folder. An empty name of a client's certificate means none, whatever the
// environment has.
func namesPath(f *pflag.Flag) bool {
	name, _ := pflag.UnquoteUsage(f)
	return slices.Contains([]string{"FILE", "DIR", "FOLDER"}, name) && !slices.Contains(clientFiles, f.Name)
}

// noArgs refuses arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(fmt.Sprintf("see %s --help", c.CommandPath()), "%s takes no argument, not %q",
			c.CommandPath(), args[0])
	}
	return nil
}

// nearest finds the name that differs least from s, if it is near enough to be meant.
func nearest(s string, names []string) (string, bool) {
	best, bestDistance := "", max(1, len(s)/2)+1
	for _, n := range names {
		d := spelling.Distance(s, n)
		if strings.HasPrefix(n, s) && s != "" {
			d = 0
		}
		if d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best, best != ""
}
