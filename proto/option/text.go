package option

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// timeSyntax is what time.ParseDuration takes, but for the length.
var timeSyntax = regexp.MustCompile(`^[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$`)

// IsTime reports whether text is a time with its unit, of whatever length: one that
// time.ParseDuration refuses all the same is longer than 292 years.
func IsTime(text string) bool { return timeSyntax.MatchString(text) }

// ParseDuration reads a time with its unit.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil:
		return d, nil
	case IsTime(text):
		return 0, fmt.Errorf("%s is too long", text)
	}
	return 0, fmt.Errorf("expected a %v, not %q", TypeDuration, text)
}

// Bytes is a size; in files and on the command line with a unit, as 64MiB.
type Bytes uint64

// maxBytes is the largest size that ParseBytes reads.
const maxBytes Bytes = 1 << 62

// units of sizes, the larger ones first.
var units = []struct {
	name  string
	bytes uint64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"B", 1}}

// ParseBytes reads a size with its unit: B, KiB, MiB, GiB, kB, MB, GB.
func ParseBytes(text string) (Bytes, error) {
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || x < 0 || x*float64(u.bytes) > float64(maxBytes) {
				break
			}
			return Bytes(x * float64(u.bytes)), nil
		}
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("expected a size with its unit, as 64MiB, not the bare number %q", text)
	}
	return 0, fmt.Errorf("expected a size, such as 64MiB (B, KiB, MiB, GiB, kB, MB, GB), not %q", text)
}

func (b Bytes) String() string {
	for _, u := range units {
		if uint64(b) >= u.bytes && uint64(b)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", uint64(b)/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", uint64(b))
}
