package option

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"drtmd/internal/invariant"
)

// Type of a value.
type Type uint8

// Types, and the Go types that Values give.
const (
	TypeInt      Type = iota + 1 // int
	TypeFloat                    // float64
	TypeBool                     // bool
	TypeDuration                 // time.Duration
	TypeBytes                    // Bytes
	TypeChoice                   // string, one of several
)

// String says what a text must be, for errors and help.
func (t Type) String() string {
	return [...]string{"?", "whole number", "number", "true or false", "time, such as 2s or 500ms",
		"size, such as 64MiB", "word"}[t]
}

// Option is one setting. Make it with the function that is named after its type.
type Option struct {
	Name string // words joined by dashes
	// Doc is a line of help. A word between backquotes stands for the value, as `TIME`.
	Doc  string
	Type Type
	// Default is the value where none is given; of the Go type of Type.
	Default any
	// Low and High bound the values of numbers, times and sizes; of the Go type of Type. nil for
	// others.
	Low, High any
	Choices   []string // of TypeChoice; the first is the default
	// Chosen says how whoever takes the option chooses where no value is given, and Usual what that
	// often is, as an example. Default is then the zero value, and out of bounds.
	Chosen string
	Usual  any
	// Why, if not "", says in errors why the bounds are what they are.
	Why string
}

// Int is a whole number.
func Int(name string, value, low, high int, doc string) Option {
	return numeric(name, TypeInt, value, low, high, doc)
}

// Float is a number.
func Float(name string, value, low, high float64, doc string) Option {
	return numeric(name, TypeFloat, value, low, high, doc)
}

// Duration is a time.
func Duration(name string, value, low, high time.Duration, doc string) Option {
	return numeric(name, TypeDuration, value, low, high, doc)
}

// Size is a number of bytes.
func Size(name string, value, low, high Bytes, doc string) Option {
	return numeric(name, TypeBytes, value, low, high, doc)
}

// Bool is a switch.
func Bool(name string, value bool, doc string) Option {
	return Option{Name: name, Type: TypeBool, Default: value, Doc: doc}.valid()
}

// Choice is one of several words; the first is the default.
func Choice(name string, choices []string, doc string) Option {
	invariant.Assert(len(choices) > 0, "an option without choices")
	return Option{Name: name, Type: TypeChoice, Default: choices[0], Choices: choices, Doc: doc}.valid()
}

// ChosenBy is an option of which no value stands for one that is chosen later. usual is of the Go type
// of the option.
func (o Option) ChosenBy(how string, usual any) Option { o.Chosen, o.Usual = how, usual; return o }

// Because has errors say why the bounds are what they are.
func (o Option) Because(why string) Option { o.Why = why; return o }

func numeric[N int | float64 | time.Duration | Bytes](name string, t Type, value, low, high N,
	doc string) Option {
	invariant.Assert(low <= high, "an option whose bounds are the wrong way round")
	return Option{Name: name, Type: t, Default: value, Low: low, High: high, Doc: doc}.valid()
}

// valid panics if the option has no name of the form that all names have.
func (o Option) valid() Option {
	for _, word := range strings.Split(o.Name, "-") {
		good := word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
		invariant.Assertf(good, "option %q: a name is words of small letters, joined by dashes", o.Name)
	}
	return o
}

// Key is the option's name in files and JSON.
func (o Option) Key() string { return strings.ReplaceAll(o.Name, "-", "_") }

// Parse reads a value from a text, within bounds. The error is an *Error.
func (o Option) Parse(text string) (any, error) {
	v, err := o.Decode(text)
	if err != nil {
		return nil, err
	}
	if o.outside(v) {
		why := fmt.Sprintf("expected %s, not %s", o.Bounds(), text)
		if o.Why != "" {
			why += ": " + o.Why
		}
		return nil, &Error{Option: o.Name, Why: why}
	}
	return v, nil
}

// Decode is Parse without a look at the bounds.
func (o Option) Decode(text string) (any, error) {
	v, err := o.decode(text)
	if err != nil {
		return nil, &Error{Option: o.Name, Why: err.Error()}
	}
	return v, nil
}

func (o Option) decode(text string) (any, error) {
	expected := fmt.Errorf("expected a %v, not %q", o.Type, text)
	switch o.Type {
	case TypeInt:
		if n, err := strconv.Atoi(text); err == nil {
			return n, nil
		}
	case TypeFloat:
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return x, nil
		}
	case TypeBool:
		if b, err := strconv.ParseBool(text); err == nil {
			return b, nil
		}
	case TypeDuration:
		return ParseDuration(text)
	case TypeBytes:
		return ParseBytes(text)
	case TypeChoice:
		for _, c := range o.Choices {
			if strings.EqualFold(c, text) {
				return c, nil
			}
		}
		return nil, fmt.Errorf("expected %s, not %q", strings.Join(o.Choices, ", "), text)
	}
	return nil, expected
}

// outside reports whether a value is out of bounds; NaN is.
func (o Option) outside(v any) bool {
	switch v := v.(type) {
	case int:
		return v < o.Low.(int) || v > o.High.(int)
	case float64:
		return !(v >= o.Low.(float64) && v <= o.High.(float64))
	case time.Duration:
		return v < o.Low.(time.Duration) || v > o.High.(time.Duration)
	case Bytes:
		return v < o.Low.(Bytes) || v > o.High.(Bytes)
	}
	return false
}

// Bounds says in words which values are taken.
func (o Option) Bounds() string {
	low, high := Text(o.Low), Text(o.High)
	switch {
	case o.Type == TypeChoice:
		return strings.Join(o.Choices, ", ")
	case o.Low == nil:
		return o.Type.String()
	case o.endless():
		return low + " or more"
	}
	return low + " to " + high
}

// endless reports whether the upper bound is that of the Go type.
func (o Option) endless() bool {
	switch v := o.High.(type) {
	case int:
		return v == math.MaxInt
	case float64:
		return v > math.MaxFloat64/2
	case time.Duration:
		return v == math.MaxInt64
	case Bytes:
		return v >= maxBytes
	}
	return false
}

// Text is a value of an option's Go type as text, which Parse reads.
func Text(v any) string {
	if x, ok := v.(float64); ok {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// DefaultDoc is what help says of the default; "" is nothing.
func (o Option) DefaultDoc() string {
	switch {
	case o.Chosen != "":
		return o.Chosen
	case o.Type == TypeBool && o.Default == false:
		return ""
	}
	return Text(o.Default)
}

// Example is a text that Parse takes.
func (o Option) Example() string {
	if o.Chosen != "" {
		return Text(o.Usual)
	}
	return Text(o.Default)
}

// Error is a setting that is refused.
type Error struct {
	Option string // its name
	Why    string
}

func (e *Error) Error() string { return e.Option + ": " + e.Why }
