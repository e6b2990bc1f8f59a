package daemon

import (
	"testing"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
)

// TestEveryKeyThatIsNotReloadedIsNamed when it has changed.
func TestEveryKeyThatIsNotReloadedIsNamed(t *testing.T) {
	was := config.Default(composition.BuiltIn())
	for _, k := range config.Keys(composition.BuiltIn()) {
		is := config.Default(composition.BuiltIn())
		value := map[string]string{"whole number": "7", "number": "7", "true or false": "true",
			"size, such as 64MiB": "7MiB", "time, such as 2s or 500ms": "7s"}[k.Type()]
		switch {
		case k.Get(&is) == "true":
			value = "false"
		case len(k.Choices()) > 0:
			value = k.Choices()[len(k.Choices())-1] // the first is the default
		case value == "":
			value = "seven"
		}
		if err := k.Set(&is, value); err != nil {
			t.Fatal(err)
		}
		got := changed(&was, &is)
		if k.Path == "log.level" {
			if len(got) > 0 {
				t.Errorf("%v, though it is reloaded", got)
			}
			continue
		}
		if len(got) != 1 || got[0] != k.Path+` (is "`+k.Get(&was)+`", now "`+k.Get(&is)+`")` {
			t.Errorf("%s: %v", k.Path, got)
		}
	}
}
