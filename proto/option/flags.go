package option

import (
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
	Option
	Owners []string
}

// Union joins the options of several owners, in the order in which they come. An option that several
// have has the help and default of the first; its bounds are the first's as well, and Parse is to be
// called on that of the owner who is chosen. An error says who disagrees about a type.
func Union(owners []Owner) (all []Shared, err error) {
	for _, w := range owners {
		for _, o := range w.Options {
			i := slices.IndexFunc(all, func(s Shared) bool { return s.Name == o.Name })
			if i < 0 {
				all = append(all, Shared{o, []string{w.Name}})
				continue
			}
			if s := &all[i]; s.Type != o.Type {
				return nil, fmt.Errorf("option %s is a %v of %s and a %v of %s: give one another name",
					o.Name, s.Type, s.Owners[0], o.Type, w.Name)
			}
			all[i].Owners = append(all[i].Owners, w.Name)
		}
	}
	return all, nil
}

// Help is the line of help: who has it, what it is, and the default.
func (s *Shared) Help() string {
	text := strings.Join(s.Owners, ", ") + ": " + s.Doc
	if d := s.DefaultDoc(); d != "" {
		text += "; default " + d
	}
	return text
}

// Register makes a flag of each option. A text that is no value of the type is refused when the
// command line is read; bounds are checked by List.Values.
func Register(f *pflag.FlagSet, all []Shared) {
	for i := range all {
		flag := f.VarPF(&flagValue{option: all[i].Option}, all[i].Name, "", all[i].Help())
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
	option Option
	text   string
}

func (v *flagValue) String() string { return v.text }

func (v *flagValue) Set(text string) error {
	if _, err := v.option.decode(text); err != nil {
		return err
	}
	v.text = text
	return nil
}

// Type is the name that pflag has for the type, where it has one.
func (v *flagValue) Type() string {
	return [...]string{TypeInt: "int", TypeFloat: "float64", TypeBool: "bool", TypeDuration: "duration",
		TypeBytes: "size", TypeChoice: "string"}[v.option.Type]
}
