package option

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Settings are what was given, as text by name. They travel as a JSON object whose keys are those of
// files; numbers and truth values stand in it as such, everything else as a string.
type Settings map[string]string

// Clone is a copy; that of nil can be written to.
func (s Settings) Clone() Settings {
	c := Settings{}
	maps.Copy(c, s)
	return c
}

// MarshalJSON implements json.Marshaler.
func (s Settings) MarshalJSON() ([]byte, error) {
	plain := map[string]any{}
	for name, text := range s {
		var v any = text
		if literal := json.RawMessage(text); isLiteral(text) && json.Valid(literal) {
			v = literal
		}
		plain[strings.ReplaceAll(name, "-", "_")] = v
	}
	return json.Marshal(plain)
}

// isLiteral reports whether a text begins like a number or a truth value of JSON.
func isLiteral(text string) bool {
	return text == "true" || text == "false" || text != "" && strings.ContainsRune("-0123456789", rune(text[0]))
}

// UnmarshalJSON implements json.Unmarshaler. Names and values are checked by List.Values.
func (s *Settings) UnmarshalJSON(b []byte) error {
	plain := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return err
	}
	*s = Settings{}
	for key, v := range plain {
		switch v := v.(type) {
		case string, json.Number, bool:
			name := strings.ReplaceAll(key, "_", "-")
			if _, twice := (*s)[name]; twice {
				return &Error{Option: name, Why: "it is given twice"}
			}
			(*s)[name] = fmt.Sprint(v)
		default:
			return &Error{Option: key, Why: "expected a text, a number or a truth value"}
		}
	}
	return nil
}
