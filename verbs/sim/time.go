package sim

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Time is a point or a span of virtual time in picoseconds, counted from the world's start.
type Time int64

// Units of Time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond

	// Forever is the latest time: 106 days.
	Forever Time = math.MaxInt64
)

// Of converts a time.Duration; past Forever it is Forever, below zero it is 0.
func Of(d time.Duration) Time {
	switch {
	case d <= 0:
		return 0
	case d > time.Duration(Forever/Nanosecond):
		return Forever
	}
	return Time(d) * Nanosecond
}

// Duration rounds down to nanoseconds.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// add is t+d that stops at Forever.
func (t Time) add(d Time) Time {
	if d > Forever-t {
		return Forever
	}
	return t + d
}

// String prints the shortest exact form with one unit, as ParseTime reads it: "1.5us".
func (t Time) String() string {
	if t == 0 {
		return "0ns"
	}
	sign, u := "", uint64(t)
	if t < 0 {
		sign, u = "-", -uint64(t)
	}
	for _, unit := range timeUnits {
		if u >= uint64(unit.size) || unit.size == 1 {
			whole, frac := u/uint64(unit.size), u%uint64(unit.size)
			if frac == 0 {
				return fmt.Sprintf("%s%d%s", sign, whole, unit.name)
			}
			digits := strings.TrimRight(fmt.Sprintf("%0*d", unit.digits, frac), "0")
			return fmt.Sprintf("%s%d.%s%s", sign, whole, digits, unit.name)
		}
	}
	return "0ns"
}

var timeUnits = [...]struct {
	name   string
	size   Time
	digits int
}{
	{"s", Second, 12}, {"ms", Millisecond, 9}, {"us", Microsecond, 6}, {"ns", Nanosecond, 3},
	{"ps", Picosecond, 0},
}

// ParseTime reads a time of at least 0 with its unit: s, ms, us, ns or ps.
func ParseTime(s string) (Time, error) {
	number, unit := splitUnit(s)
	for _, u := range timeUnits {
		if u.name == unit {
			v, err := parseDecimal(number, int64(u.size), u.digits)
			return Time(v), err
		}
	}
	if unit == "" {
		return 0, fmt.Errorf("%q has no unit: write s, ms, us, ns or ps", s)
	}
	return 0, fmt.Errorf("%q is not a time: the units are s, ms, us, ns and ps", s)
}

// splitUnit cuts "12.5 us" into "12.5" and "us".
func splitUnit(s string) (number, unit string) {
	s = strings.TrimSpace(s)
	i := 0
	for i < len(s) && strings.IndexByte("+-.0123456789", s[i]) >= 0 {
		i++
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// parseDecimal reads a plain decimal number and gives it times scale, exactly: scale is a power
// of ten with that many digits behind it (or any number with digits = 0 for whole ones).
func parseDecimal(s string, scale int64, digits int) (int64, error) {
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%s is negative", s)
	}
	whole, frac, dot := strings.Cut(s, ".")
	if whole == "" || dot && frac == "" {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if len(frac) > digits {
		return 0, fmt.Errorf("%s has more than %d digits after the point", s, digits)
	}
	var v int64
	for _, c := range whole {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a number", s)
		}
		if v > (math.MaxInt64-9)/10 {
			return 0, fmt.Errorf("%s is too large", s)
		}
		v = v*10 + int64(c-'0')
	}
	if v > math.MaxInt64/scale {
		return 0, fmt.Errorf("%s is too large", s)
	}
	v *= scale
	for _, c := range frac {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a number", s)
		}
		scale /= 10
		if d := int64(c-'0') * scale; v > math.MaxInt64-d {
			return 0, fmt.Errorf("%s is too large", s)
		} else {
			v += d
		}
	}
	return v, nil
}
