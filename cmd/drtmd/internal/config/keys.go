package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Key is one setting.
type Key struct {
	Path    string // "control.listen"
	Doc     string
	Example string // of the file; "" is the default
	Short   string // another name of the flag; "" is none
	value   func(c *Config) reflect.Value
}

// Env is the name in the environment.
func (k Key) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

// Flag is the name on the command line.
func (k Key) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Path)
}

// flagNames are the names on the command line, the long one first.
func (k Key) flagNames() []string {
	if k.Short == "" {
		return []string{k.Flag()}
	}
	return []string{k.Flag(), k.Short}
}

// EnvPrefix begins the variables of the environment.
const EnvPrefix = "DRTMD_"

// Keys lists the settings in the order of the file.
func Keys() []Key {
	var all []Key
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		section := t.Field(i)
		for j := range section.Type.NumField() {
			f := section.Type.Field(j)
			all = append(all, Key{
				Path: section.Tag.Get("yaml") + "." + f.Tag.Get("yaml"),
				Doc:  f.Tag.Get("doc"), Example: f.Tag.Get("example"),
				Short: f.Tag.Get("short"),
				value: func(c *Config) reflect.Value {
					return reflect.ValueOf(c).Elem().Field(i).Field(j)
				}})
		}
	}
	return all
}

// Typed is the value of c as JSON has it: a string, a number, a bool or a list of strings. unit is that
// of a number, "s" or "bytes"; "" has none.
func (k Key) Typed(c *Config) (value any, unit string) {
	switch v := k.value(c).Interface().(type) {
	case time.Duration:
		return v.Seconds(), "s"
	case Bytes:
		return uint64(v), "bytes"
	case []string:
		if v == nil {
			v = []string{}
		}
		return v, ""
	default:
		return v, ""
	}
}

// Get is the value of c as a file would have it, with its unit.
func (k Key) Get(c *Config) string {
	switch v := k.value(c).Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case time.Duration:
		return v.String()
	case Bytes:
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}

// Type says what the key takes.
func (k Key) Type() string {
	switch k.value(&Config{}).Interface().(type) {
	case []string:
		return "list"
	case time.Duration:
		return "time, such as 2s or 500ms"
	case Bytes:
		return "size, such as 64MiB"
	case int:
		return "whole number"
	case float64:
		return "number"
	case bool:
		return "true or false"
	default:
		return "text"
	}
}

// Set parses text into the key of c.
func (k Key) Set(c *Config, text string) error {
	v := k.value(c)
	fail := func() error { return fmt.Errorf("expected a %s, not %q", k.Type(), text) }
	switch v.Interface().(type) {
	case []string:
		var list []string
		for _, x := range strings.Split(text, ",") {
			if x = strings.TrimSpace(x); x != "" {
				list = append(list, x)
			}
		}
		v.Set(reflect.ValueOf(list))
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil && IsTime(text) {
			return fmt.Errorf("%s is too long", text)
		}
		if err != nil {
			return fail()
		}
		v.SetInt(int64(d))
	case Bytes:
		b, err := ParseBytes(text)
		if err != nil {
			return err
		}
		v.SetUint(uint64(b))
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fail()
		}
		v.SetInt(int64(n))
	case float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fail()
		}
		v.SetFloat(x)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fail()
		}
		v.SetBool(b)
	default:
		v.SetString(text)
	}
	return nil
}

// timeSyntax is what time.ParseDuration takes, but for the length.
var timeSyntax = regexp.MustCompile(`^[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$`)

// IsTime reports whether text is a time with its unit, of whatever length: one that
// time.ParseDuration refuses all the same is longer than 292 years.
func IsTime(text string) bool { return timeSyntax.MatchString(text) }

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
			if err != nil || x < 0 || x*float64(u.bytes) > 1<<62 {
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
