package option

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Owner is somebody with options, as a protocol: the name stands in help and errors.
type Owner struct {
	Name    string
	Options List
}

// Shared is an option with the names of all who have it.
type Shared struct {
	Option   // of the first owner
	Owners   []string
	Variants []Variant
}

// Variant is what some owners mean by an option: they may differ in help, default and bounds.
type Variant struct {
	Option
	Owners []string
}

// Union joins the options of several owners, in the order in which they come. An option that several
// have is that of the first; Parse is to be called on that of the owner who is chosen (Of). An error
// says who disagrees about a type.
func Union(owners []Owner) (all []Shared, err error) {
	for _, w := range owners {
		for _, o := range w.Options {
			i := slices.IndexFunc(all, func(s Shared) bool { return s.Name == o.Name })
			if i < 0 {
				all = append(all, Shared{Option: o})
				i = len(all) - 1
			}
			s := &all[i]
			if s.Type != o.Type {
				return nil, fmt.Errorf("option %s is a %v of %s and a %v of %s: give one another name",
					o.Name, s.Type, s.Owners[0], o.Type, w.Name)
			}
			s.add(o, w.Name)
		}
	}
	return all, nil
}

// add adds an owner, to the variant that says the same.
func (s *Shared) add(o Option, owner string) {
	s.Owners = append(s.Owners, owner)
	i := slices.IndexFunc(s.Variants, func(v Variant) bool {
		return v.Doc == o.Doc && v.DefaultDoc() == o.DefaultDoc()
	})
	if i < 0 {
		s.Variants = append(s.Variants, Variant{Option: o})
		i = len(s.Variants) - 1
	}
	s.Variants[i].Owners = append(s.Variants[i].Owners, owner)
}

// Of is the option as an owner has it; that of the first, if the owner lacks it.
func (s *Shared) Of(owner string) Option {
	for _, v := range s.Variants {
		if slices.Contains(v.Owners, owner) {
			return v.Option
		}
	}
	return s.Option
}

// Decode reads a value that one of the owners takes, without a look at bounds.
func (s *Shared) Decode(text string) (v any, err error) {
	for _, variant := range s.Variants {
		x, wrong := variant.Decode(text)
		if wrong == nil {
			return x, nil
		}
		if err == nil {
			err = wrong
		}
	}
	return nil, err
}

// Help is the line of help: who has it, what it is, and the default. Owners who mean the same stand
// together, with the defaults of each where these differ.
func (s *Shared) Help() string {
	var all []string
	for first := 0; first < len(s.Variants); {
		next := first + 1
		for next < len(s.Variants) && s.Variants[next].Doc == s.Variants[first].Doc {
			next++
		}
		text := alike(s.Variants[first:next])
		if first > 0 {
			text = strings.ReplaceAll(text, "`", "") // only the first names the flag's value
		}
		all = append(all, text)
		first = next
	}
	return strings.Join(all, "; ")
}

// alike is the help of variants that differ in their defaults alone.
func alike(variants []Variant) string {
	var owners, defaults []string
	for _, v := range variants {
		owners = append(owners, v.Owners...)
		if d := v.DefaultDoc(); d != "" && len(variants) > 1 {
			defaults = append(defaults, d+" ("+strings.Join(v.Owners, ", ")+")")
		} else if d != "" {
			defaults = append(defaults, d)
		}
	}
	text := strings.Join(owners, ", ") + ": " + variants[0].Doc
	if len(defaults) > 0 {
		text += "; default " + strings.Join(defaults, ", ")
	}
	return text
}

// Register makes a flag of each option. A text that is no value of the type is refused when the
// command line is read; bounds are checked by List.Values.
func Register(f *pflag.FlagSet, all []Shared) {
	for i := range all {
		flag := f.VarPF(&flagValue{option: &all[i]}, all[i].Name, "", all[i].Help())
		if all[i].Type == TypeBool {
			flag.NoOptDefVal = "true"
		}
	}
}

// Given are the settings of those options whose flags were given.
func Given(f *pflag.FlagSet, all []Shared) Settings {
	s := Settings{}
	for i := range all {
		if flag := f.Lookup(all[i].Name); flag != nil && flag.Changed {
			s[all[i].Name] = flag.Value.String()
		}
	}
	return s
}

// flagValue is the text of a flag.
type flagValue struct {
	option *Shared
	text   string
}

func (v *flagValue) String() string { return v.text }

func (v *flagValue) Set(text string) error {
	_, err := v.option.Decode(text)
	if wrong := (*Error)(nil); errors.As(err, &wrong) {
		return errors.New(wrong.Why) // pflag names the flag
	}
	v.text = text
	return err
}

// Type is the name that pflag has for the type, where it has one.
func (v *flagValue) Type() string {
	return [...]string{TypeInt: "int", TypeFloat: "float64", TypeBool: "bool", TypeDuration: "duration",
		TypeBytes: "size", TypeChoice: "string"}[v.option.Type]
}
