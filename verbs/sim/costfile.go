package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// CostFileError is what is wrong in a cost file, and where.
type CostFileError struct {
	File   string
	Line   int // counted from 1; 0 = the file as a whole
	Reason string
}

func (e *CostFileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// maxCostFile bounds a cost file, in bytes.
const maxCostFile = 64 << 10

// LoadCost reads a cost model from a YAML file.
func LoadCost(path string) (*CostModel, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCostFile+1))
	if err != nil {
		return nil, err
	}
	return ParseCost(path, b)
}

// ParseCost decodes a cost model; file is what errors call it. Every failure is a
// *CostFileError. Unknown and repeated keys, missing units, values below zero or absurd ones
// are refused; without a base, so are missing keys.
func ParseCost(file string, b []byte) (*CostModel, error) {
	fail := func(line int, format string, args ...any) error {
		return &CostFileError{File: file, Line: line, Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) > maxCostFile {
		return nil, fail(0, "longer than %d bytes", maxCostFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := decodeYAML(dec, &doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fail(0, "empty")
		}
		line, reason := yamlLine(err)
		return nil, fail(line, "%s", reason)
	}
	if err := decodeYAML(dec, &yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, fail(0, "more than one YAML document")
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fail(doc.Line, "not a mapping of keys to values")
	}
	d := costDecoder{fail: fail, seen: map[string]int{}, fields: map[string]costField{}}
	c := &CostModel{}
	all := costFields(c)
	for _, f := range all {
		d.fields[f.path] = f
	}
	if err := d.mapping("", doc.Content[0]); err != nil {
		return nil, err
	}
	if c.Name = d.name; c.Name == "" {
		return nil, fail(0, "the key name is missing")
	}
	if d.base != "" {
		base, err := Preset(d.base)
		if err != nil {
			return nil, fail(d.seen["base"], "base: %v", err)
		}
		for i, f := range costFields(base) {
			if d.seen[f.path] == 0 {
				all[i].value.Set(f.value)
			}
		}
	}
	cores := false
	for _, f := range all {
		cores = cores || f.optional() && d.seen[f.path] != 0
	}
	for _, f := range all {
		if d.base == "" && d.seen[f.path] == 0 && (cores || !f.optional()) {
			return nil, fail(0, "the key %s is missing (or name a base)", f.path)
		}
	}
	if err := c.Check(); err != nil {
		return nil, fail(d.seen["link.mtu"], "%v", err)
	}
	return c, nil
}

// decodeYAML turns a panic of the parser, of which it has had some, into an error.
func decodeYAML(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return dec.Decode(n)
}

var yamlLinePattern = regexp.MustCompile(`^yaml: line (\d+): `)

func yamlLine(err error) (int, string) {
	s := err.Error()
	if m := yamlLinePattern.FindStringSubmatch(s); m != nil {
		line, _ := strconv.Atoi(m[1])
		return line, s[len(m[0]):]
	}
	return 0, strings.TrimPrefix(s, "yaml: ")
}

type costDecoder struct {
	fail       func(line int, format string, args ...any) error
	fields     map[string]costField
	seen       map[string]int // path -> line
	name, base string
}

func (d *costDecoder) mapping(prefix string, n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := prefix + key.Value
		if key.Kind != yaml.ScalarNode {
			return d.fail(key.Line, "a key must be a word")
		}
		if first := d.seen[path]; first != 0 {
			return d.fail(key.Line, "%s is repeated, first in line %d", path, first)
		}
		d.seen[path] = key.Line
		if err := d.entry(path, key.Line, value); err != nil {
			return err
		}
	}
	return nil
}

func (d *costDecoder) entry(path string, line int, value *yaml.Node) error {
	if value.Kind == yaml.AliasNode || value.Anchor != "" {
		return d.fail(line, "%s: anchors and aliases are not used here", path)
	}
	f, known := d.fields[path]
	switch {
	case path == "name" || path == "base" || known:
		if value.Kind != yaml.ScalarNode {
			return d.fail(line, "%s must be a single value", path)
		}
	case d.isSection(path):
		if value.Kind != yaml.MappingNode {
			return d.fail(line, "%s must be a mapping of keys to values", path)
		}
		return d.mapping(path+".", value)
	default:
		return d.fail(line, "unknown key %s%s", path, d.suggest(path))
	}
	switch path {
	case "name":
		d.name = value.Value
		return nil
	case "base":
		d.base = value.Value
		return nil
	}
	if err := f.parse(value.Value); err != nil {
		return d.fail(value.Line, "%s: %v", path, err)
	}
	return nil
}

func (d *costDecoder) isSection(path string) bool {
	for _, f := range costFields(&CostModel{}) {
		if strings.HasPrefix(f.path, path+".") {
			return true
		}
	}
	return false
}

// suggest lists the keys beside an unknown one.
func (d *costDecoder) suggest(path string) string {
	section := path[:strings.LastIndexByte(path, '.')+1]
	var keys []string
	if section == "" {
		keys = []string{"name", "base"}
	}
	for _, f := range costFields(&CostModel{}) {
		rest, ok := strings.CutPrefix(f.path, section)
		head, _, _ := strings.Cut(rest, ".")
		if ok && (len(keys) == 0 || keys[len(keys)-1] != head) {
			keys = append(keys, head)
		}
	}
	return "; known here: " + strings.Join(keys, ", ")
}
