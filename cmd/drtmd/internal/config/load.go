package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/spelling"
	"drtmd/proto/option"
)

// Sources says where each key's value comes from, by path: "default", "FILE:LINE", "DRTMD_X",
// "--flag".
type Sources map[string]string

// Errors are all that is wrong with a configuration.
type Errors []error

func (e Errors) Error() string {
	var lines []string
	for _, x := range e {
		lines = append(lines, x.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives them one by one.
func (e Errors) Unwrap() []error { return e }

// reserved variables of the environment are no keys: of the command line's clients, and of the
// tests, whose further ones begin with testPrefix.
var reserved = []string{"DRTMD_ADDRESS", "DRTMD_CONFIG", "DRTMD_REQUIRE", "DRTMD_TRANSPORT",
	"DRTMD_UPDATE", "DRTMD_CHECK_SEEDS", "DRTMD_SOAK_SEEDS", "DRTMD_SOAK_SEED",
	"DRTMD_SOAK_TIME", "DRTMD_SOAK_DAMAGES", "DRTMD_SOAK_KILLS", "DRTMD_GUEST", "DRTMD_GUEST_PINNED",
	"DRTMD_TEST"}

const testPrefix = "DRTMD_TEST_"

// Load reads a configuration: the defaults, overridden by file ("" is none), overridden by the
// environment, overridden by the flags that were given. It is checked. Every error is of type
// Errors, but for a file that cannot be read or is none.
//
// more are further checks of the values, such as of what this host has.
func Load(has *composition.Composition, file string, flags *pflag.FlagSet, env []string,
	more ...func(*Config) []Problem) (*Config, Sources, error) {
	c, src := Default(has), Sources{}
	keys := map[string]Key{}
	for _, k := range Keys(has) {
		keys[k.Path] = k
		src[k.Path] = "default"
	}
	l := &loader{c: &c, src: src, keys: keys, failed: map[string]bool{}}
	if file != "" {
		if err := l.file(file); err != nil {
			return nil, nil, err
		}
	}
	l.environment(env)
	l.flags(flags)
	l.problems(c.problems())
	for _, check := range more {
		l.problems(check(&c))
	}
	if len(l.errs) > 0 {
		return nil, nil, l.errs
	}
	return &c, src, nil
}

type loader struct {
	c    *Config
	src  Sources
	keys map[string]Key
	errs Errors
	// failed are the keys whose value could not be read. They have the value of an earlier source.
	failed map[string]bool
}

// problems adds what cannot work, but for what only looks so because a value could not be read.
func (l *loader) problems(list []Problem) {
	for _, p := range list {
		if l.failed[p.Path] || slices.ContainsFunc(p.With, func(k string) bool { return l.failed[k] }) {
			continue
		}
		l.errs = append(l.errs, fmt.Errorf("%s (%s): %s", p.Path, l.src[p.Path], p.Text))
	}
}

func (l *loader) fail(where, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
}

// file reads a YAML file.
func (l *loader) file(name string) error {
	b, err := readFile(name)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		l.fail(name, "%v", err)
		return nil
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		l.fail(name, "expected one YAML document")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	l.mapping(name, root, "", func(section string, key, v *yaml.Node) {
		if !l.section(section) {
			l.fail(at(name, key), "unknown section %q%s", section, l.near(section+".", true))
			return
		}
		if v.Kind == yaml.ScalarNode && v.Tag == "!!null" {
			return
		}
		l.mapping(name, v, section, func(field string, key, v *yaml.Node) {
			l.field(name, section+"."+field, key, v)
		})
	})
	return nil
}

// largestFile is what a file may have.
const largestFile = 1 << 20

// readFile reads a file that is one: a device has no end, and a pipe may never have.
func readFile(name string) ([]byte, error) {
	i, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !i.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	case i.Size() > largestFile:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, i.Size(), largestFile)
	}
	return os.ReadFile(name)
}

func at(name string, n *yaml.Node) string { return fmt.Sprintf("%s:%d", name, n.Line) }

// mapping calls f for each pair, once for each key.
func (l *loader) mapping(name string, n *yaml.Node, path string,
	f func(string, *yaml.Node, *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		l.fail(at(name, n), "%sexpected keys with values", prefix(path))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if first, ok := seen[k.Value]; ok {
			l.fail(at(name, k), "%s%s is given twice, first in line %d", prefix(path), k.Value, first)
			continue
		}
		seen[k.Value] = k.Line
		f(k.Value, k, n.Content[i+1])
	}
}

func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func (l *loader) section(name string) bool {
	for path := range l.keys {
		if strings.HasPrefix(path, name+".") {
			return true
		}
	}
	return false
}

// field takes one value of a file.
func (l *loader) field(name, path string, key, v *yaml.Node) {
	k, ok := l.keys[path]
	if !ok {
		l.fail(at(name, key), "unknown key %s%s", path, l.near(path, false))
		return
	}
	text := v.Value
	_, list := k.get(l.c).([]string)
	switch {
	case v.Kind == yaml.AliasNode:
		l.fail(at(name, v), "%s: aliases are not taken", path)
		l.failed[path] = true
		return
	case v.Kind == yaml.ScalarNode && v.Tag == "!!null":
		return
	case list && v.Kind == yaml.SequenceNode:
		var all []string
		for _, x := range v.Content {
			if x.Kind != yaml.ScalarNode || strings.Contains(x.Value, ",") {
				l.fail(at(name, x), "%s: expected a list of words", path)
				l.failed[path] = true
				return
			}
			all = append(all, x.Value)
		}
		text = strings.Join(all, ",")
	case v.Kind != yaml.ScalarNode:
		l.fail(at(name, v), "%s: expected a %s", path, k.Type())
		l.failed[path] = true
		return
	}
	if err := k.Set(l.c, text); err != nil {
		l.fail(at(name, v), "%s: %v", path, err)
		l.failed[path] = true
		return
	}
	l.src[path] = at(name, v)
}

// environment takes the variables that begin with EnvPrefix.
func (l *loader) environment(env []string) {
	byName := map[string]Key{}
	for _, k := range l.keys {
		byName[k.Env()] = k
	}
	for _, kv := range env {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, EnvPrefix) {
			continue
		}
		k, ok := byName[name]
		if !ok {
			if !isReserved(name) {
				var names []string
				for n := range byName {
					names = append(names, n)
				}
				l.fail(name, "unknown variable of the environment%s", suggestion(name, names))
			}
			continue
		}
		if err := k.Set(l.c, text); err != nil {
			l.fail(name, "%v", err)
			l.failed[k.Path] = true
			continue
		}
		l.src[k.Path] = name
	}
}

func isReserved(name string) bool {
	return slices.Contains(reserved, name) || strings.HasPrefix(name, testPrefix)
}

// flags takes those that were given.
func (l *loader) flags(flags *pflag.FlagSet) {
	if flags == nil {
		return
	}
	for _, k := range Keys(l.c.Has) {
		for _, name := range k.flagNames() {
			f := flags.Lookup(name)
			if f == nil || !f.Changed {
				continue
			}
			name = "--" + name
			switch before := l.src[k.Path]; {
			case before == "--"+k.Flag():
				l.fail(name, "given as %s, too: leave one of them out", before)
			default:
				if err := k.Set(l.c, f.Value.String()); err != nil {
					l.fail(name, "%v", err)
					l.failed[k.Path] = true
					continue
				}
				l.src[k.Path] = name
			}
		}
	}
}

// RegisterFlags makes a flag of every key, and one more of those with a short name. Their values are
// texts: Load reads them.
func RegisterFlags(has *composition.Composition, f *pflag.FlagSet) {
	d := Default(has)
	for _, k := range Keys(has) {
		for i, name := range k.flagNames() {
			doc := k.Doc + defaultNote(k.defaultDoc(&d))
			if i > 0 {
				doc = "same as --" + k.Flag()
			}
			k.register(f, name, doc)
		}
	}
}

// register makes a flag of the key.
func (k Key) register(f *pflag.FlagSet, name, usage string) *pflag.Flag {
	flag := f.VarPF(&flagValue{kind: k.Type(), letter: k.letter()}, name, "", usage)
	if k.Type() == option.TypeBool.String() {
		flag.NoOptDefVal = "true"
	}
	return flag
}

// RegisterHidden makes a flag of every key of a section, as RegisterFlags does, which help does not show.
func RegisterHidden(has *composition.Composition, section string, f *pflag.FlagSet) {
	for _, k := range Keys(has) {
		if k.Section() == section {
			k.register(f, k.Flag(), k.Doc).Hidden = true
		}
	}
}

// Given are the flags of a section that were given, as arguments of drtmd serve.
func Given(has *composition.Composition, section string, f *pflag.FlagSet) (args []string) {
	for _, k := range Keys(has) {
		if flag := f.Lookup(k.Flag()); k.Section() == section && flag != nil && flag.Changed {
			args = append(args, "--"+flag.Name+"="+flag.Value.String())
		}
	}
	return args
}

func defaultNote(text string) string {
	if text == "" || text == "false" {
		return ""
	}
	return " (default " + text + ")"
}

// flagValue is a text that Load reads. letter stands for it in the help, if there is one.
type flagValue struct{ text, kind, letter string }

func (v *flagValue) String() string     { return v.text }
func (v *flagValue) Set(s string) error { v.text = s; return nil }

// Type is what help shows.
func (v *flagValue) Type() string {
	if v.letter != "" {
		return v.letter
	}
	switch word, _, _ := strings.Cut(v.kind, ","); word {
	case "true or false":
		return "bool"
	case "whole number", "number":
		return "N"
	default:
		return strings.ToUpper(word)
	}
}

// near suggests the key that was meant.
func (l *loader) near(path string, section bool) string {
	var names []string
	for p := range l.keys {
		if section {
			p, _, _ = strings.Cut(p, ".")
			p += "."
		}
		names = append(names, p)
	}
	return strings.Replace(suggestion(path, names), ".?", "?", 1)
}

// suggestion is "; did you mean X?", or nothing.
func suggestion(s string, names []string) string {
	best, least := "", len(s)/2+1
	for _, n := range names {
		if d := spelling.Distance(s, n); d < least || d == least && n < best {
			best, least = n, d
		}
	}
	if best == "" {
		return "; drtmd config --example shows every key"
	}
	return "; did you mean " + best + "?"
}
