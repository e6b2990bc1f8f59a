package option

import (
	"maps"
	"slices"
	"time"

	"drtmd/internal/invariant"
)

// List of options, each name once.
type List []Option

// Find finds an option by name.
func (l List) Find(name string) (Option, bool) {
	i := slices.IndexFunc(l, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return Option{}, false
	}
	return l[i], true
}

// Names of the options, in the order of the list.
func (l List) Names() (names []string) {
	for _, o := range l {
		names = append(names, o.Name)
	}
	return names
}

// Values checks settings against the list. The error is an *Error: of the first name in
// alphabetical order that is wrong.
func (l List) Values(s Settings) (Values, error) {
	v := Values{values: map[string]any{}, given: map[string]bool{}}
	for _, o := range l {
		_, twice := v.values[o.Name]
		invariant.Assertf(!twice, "option %s stands twice in a list", o.Name)
		v.values[o.Name] = o.Default
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		o, ok := l.Find(name)
		if !ok {
			return Values{}, &Error{Option: name, Why: "there is no such option" + known(l.Names())}
		}
		value, err := o.Parse(s[name])
		if err != nil {
			return Values{}, err
		}
		v.values[name], v.given[name] = value, true
	}
	return v, nil
}

func known(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text := "; known: "
	for i, n := range names {
		if i > 0 {
			text += ", "
		}
		text += n
	}
	return text
}

// Values of all options of a list. The zero value has none.
type Values struct {
	values map[string]any
	given  map[string]bool
}

// Given reports whether a setting gave the value, which else is the default.
func (v Values) Given(name string) bool { return v.given[name] }

// Int is the value of an option that was made by Int; and so on for the other types.
func (v Values) Int(name string) int { return get[int](v, name) }

// Float is that of one made by Float.
func (v Values) Float(name string) float64 { return get[float64](v, name) }

// Bool is that of one made by Bool.
func (v Values) Bool(name string) bool { return get[bool](v, name) }

// Duration is that of one made by Duration.
func (v Values) Duration(name string) time.Duration { return get[time.Duration](v, name) }

// Size is that of one made by Size.
func (v Values) Size(name string) Bytes { return get[Bytes](v, name) }

// Choice is that of one made by Choice.
func (v Values) Choice(name string) string { return get[string](v, name) }

// Settings are the values as texts, those that were not given as well.
func (v Values) Settings() Settings {
	s := Settings{}
	for name, x := range v.values {
		s[name] = Text(x)
	}
	return s
}

// Any is the value of an option of any type.
func (v Values) Any(name string) any {
	x, ok := v.values[name]
	invariant.Assertf(ok, "option %s is asked for, and there is none", name)
	return x
}

func get[T any](v Values, name string) T {
	x, ok := v.values[name].(T)
	invariant.Assertf(ok, "option %s is asked for as %T, and is %T", name, x, v.values[name])
	return x
}
