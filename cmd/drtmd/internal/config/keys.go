package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto/option"
)

// Key is one setting.
type Key struct {
	Path    string // "control.listen"
	Doc     string
	Example string // of the file; "" is the default
	Short   string // another name of the flag; "" is none

	get func(c *Config) any // of the Go type that the key has
	set func(c *Config, v any)
	// option is that of a protocol or workload, which kind says, if the key stands for one. A default
	// that is chosen later is 0.
	option *option.Shared
	kind   string
}

// Section of the file that the key is in.
func (k Key) Section() string {
	section, _, _ := strings.Cut(k.Path, ".")
	return section
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
func Keys(has *composition.Composition) []Key {
	var all []Key
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		section := t.Field(i)
		if section.Tag.Get("yaml") == "" {
			continue
		}
		for j := range section.Type.NumField() {
			f := section.Type.Field(j)
			field := func(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().Field(i).Field(j) }
			if kind := f.Tag.Get("options"); kind != "" {
				all = append(all, optionKeys(has, section.Tag.Get("yaml"), kind)...)
				continue
			}
			all = append(all, Key{
				Path: section.Tag.Get("yaml") + "." + f.Tag.Get("yaml"),
				Doc:  f.Tag.Get("doc"), Example: f.Tag.Get("example"),
				Short: f.Tag.Get("short"),
				get:   func(c *Config) any { return field(c).Interface() },
				set:   func(c *Config, v any) { field(c).Set(reflect.ValueOf(v)) }})
		}
	}
	return all
}

// Check refuses options that have the name of another key.
func Check(has *composition.Composition) error {
	seen := map[string]Key{}
	for _, k := range Keys(has) {
		if _, twice := seen[k.Path]; twice && k.option != nil {
			return fmt.Errorf("option %s of %s has the name of the key %s: give it another name",
				k.option.Name, strings.Join(k.option.Owners, ", "), k.Path)
		}
		seen[k.Path] = k
	}
	return nil
}

// optionKeys are those of the options that protocols or workloads have.
func optionKeys(has *composition.Composition, section, kind string) (all []Key) {
	shared := has.OfProtocols
	if kind == "workload" {
		shared = has.OfWorkloads
	}
	for i := range shared {
		o := &shared[i]
		k := Key{Path: section + "." + o.Key(), Doc: variants(o), option: o, kind: kind}
		k.get = func(c *Config) any {
			own := k.own(c)
			if text, ok := k.given(c)[o.Name]; ok {
				if v, err := o.Decode(text); err == nil {
					return v
				}
			}
			return own.Default
		}
		k.set = func(c *Config, v any) {
			given := k.given(c).Clone() // a Config is copied
			given[o.Name] = option.Text(v)
			if kind == "workload" {
				c.Data.WorkloadOptions = given
			} else {
				c.Data.Options = given
			}
		}
		if o.Chosen != "" {
			k.Example = o.Example()
		}
		all = append(all, k)
	}
	return all
}

// given are the options of the key's kind that were given.
func (k *Key) given(c *Config) option.Settings {
	if k.kind == "workload" {
		return c.Data.WorkloadOptions
	}
	return c.Data.Options
}

// own is the key's option as the configured workload or protocol has it.
func (k *Key) own(c *Config) option.Option {
	if k.kind == "workload" {
		return k.option.Of(c.Data.Workload)
	}
	return k.option.Of(c.Data.Protocol)
}

// Fits reports whether the key means something to the configured workload and protocol: it is no option
// of others.
func (k Key) Fits(c *Config) bool {
	if k.option == nil {
		return true
	}
	owner := c.Data.Protocol
	if k.kind == "workload" {
		owner = c.Data.Workload
	}
	return slices.Contains(k.option.Owners, owner)
}

// variants says what an option is, with whose it is.
func variants(o *option.Shared) string {
	var all []string
	for i, v := range o.Variants {
		same := func(x option.Variant) bool { return x.Doc == v.Doc }
		if slices.IndexFunc(o.Variants, same) < i {
			continue // its owners stand with the first variant of this doc
		}
		var owners []string
		for _, x := range o.Variants[i:] {
			if same(x) {
				owners = append(owners, x.Owners...)
			}
		}
		all = append(all, plain(v.Doc)+" ("+strings.Join(owners, ", ")+")")
	}
	return strings.Join(all, "; ")
}

// plain is a line of help without the quotes around the word that stands for the value, which is in
// capitals there.
func plain(doc string) string {
	before, rest, ok := strings.Cut(doc, "`")
	word, after, ok2 := strings.Cut(rest, "`")
	if !ok || !ok2 {
		return doc
	}
	if len(word) > 1 {
		word = strings.ToLower(word)
	}
	return before + word + after
}

// letter is the one that stands for the value in all lines of help; "" if there is none.
func (k Key) letter() (letter string) {
	if k.option == nil {
		return ""
	}
	for _, v := range k.option.Variants {
		_, rest, _ := strings.Cut(v.Doc, "`")
		word, _, _ := strings.Cut(rest, "`")
		if len(word) != 1 || letter != "" && word != letter {
			return ""
		}
		letter = word
	}
	return letter
}

// Typed is the value of c as JSON has it: a string, a number, a bool or a list of strings. unit is that
// of a number, "s" or "bytes"; "" has none.
func (k Key) Typed(c *Config) (value any, unit string) {
	switch v := k.get(c).(type) {
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

// Get is the value of c as a file would have it, with its unit; "" for a default that is chosen later.
func (k Key) Get(c *Config) string {
	if k.option != nil && k.own(c).Chosen != "" {
		if _, given := k.given(c)[k.option.Name]; !given {
			return ""
		}
	}
	switch v := k.get(c).(type) {
	case []string:
		return strings.Join(v, ",")
	case time.Duration:
		return v.String()
	case Bytes:
		return v.String()
	default:
		return option.Text(v)
	}
}

// defaultDoc is what help says of the default; "" is nothing.
func (k Key) defaultDoc(d *Config) string {
	if k.option == nil {
		return k.Get(d)
	}
	return k.defaults("")
}

// defaults are those of an option, with whose they are where they differ, between quotes.
func (k Key) defaults(quote string) string {
	var all []string
	for _, v := range k.option.Variants {
		text := v.DefaultDoc()
		if text == "" {
			text = option.Text(v.Default)
		}
		if v.Chosen == "" {
			text = quote + text + quote
		}
		if len(k.option.Variants) > 1 {
			text += " (" + strings.Join(v.Owners, ", ") + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// Type says what the key takes.
func (k Key) Type() string {
	switch k.get(&Config{}).(type) {
	case []string:
		return "list"
	case time.Duration:
		return option.TypeDuration.String()
	case Bytes:
		return option.TypeBytes.String()
	case int:
		return option.TypeInt.String()
	case float64:
		return option.TypeFloat.String()
	case bool:
		return option.TypeBool.String()
	default:
		return "text"
	}
}

// Set parses text into the key of c.
func (k Key) Set(c *Config, text string) error {
	if o := k.option; o != nil {
		v, err := o.Decode(text)
		if wrong := (*option.Error)(nil); errors.As(err, &wrong) {
			return errors.New(wrong.Why) // the caller names the key
		}
		k.set(c, v)
		return nil
	}
	v, err := k.parse(text)
	if err == nil {
		k.set(c, v)
	}
	return err
}

func (k Key) parse(text string) (v any, err error) {
	switch k.get(&Config{}).(type) {
	case []string:
		var list []string
		for _, x := range strings.Split(text, ",") {
			if x = strings.TrimSpace(x); x != "" {
				list = append(list, x)
			}
		}
		return list, nil
	case time.Duration:
		return option.ParseDuration(text)
	case Bytes:
		return option.ParseBytes(text)
	case int:
		v, err = strconv.Atoi(text)
	case float64:
		v, err = strconv.ParseFloat(text, 64)
	case bool:
		v, err = strconv.ParseBool(text)
	default:
		return text, nil
	}
	if err != nil {
		return nil, fmt.Errorf("expected a %s, not %q", k.Type(), text)
	}
	return v, nil
}

// Choices are the values that the key can have, the default first; nil if they are not listed.
func (k Key) Choices() []string {
	if k.option == nil {
		return nil
	}
	return k.option.Choices
}
