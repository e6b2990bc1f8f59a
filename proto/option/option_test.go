package option_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"drtmd/proto/option"
)

// all has an option of each type.
var all = option.List{
	option.Int("keys", 100, 1, math.MaxInt, "`N` keys"),
	option.Float("hot-access", 0.9, 0, 1, "`SHARE` of the accesses"),
	option.Bool("batching", true, "send requests together"),
	option.Duration("lease", 0, time.Microsecond, time.Hour, "`TIME` of a lease").
		ChosenBy("by round trip", time.Millisecond).Because("leases are counted in microseconds"),
	option.Size("nic-memory", 16<<20, 1<<10, 1<<30, "`SIZE` of a NIC's memory"),
	option.Choice("index", []string{"race", "sherman"}, "`NAME` of the index"),
}

func TestValuesHaveDefaultsAndWhatWasGiven(t *testing.T) {
	v, err := all.Values(nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.Int("keys") != 100 || v.Float("hot-access") != 0.9 || !v.Bool("batching") || v.Duration("lease") != 0 ||
		v.Size("nic-memory") != 16<<20 || v.Choice("index") != "race" || v.Given("keys") {
		t.Errorf("defaults: %+v", v)
	}
	v, err = all.Values(option.Settings{"keys": "7", "hot-access": "0.5", "batching": "false", "lease": "2ms",
		"nic-memory": "1MiB", "index": "sherman"})
	if err != nil {
		t.Fatal(err)
	}
	if back, err := all.Values(v.Settings()); err != nil || !maps.Equal(back.Settings(), v.Settings()) ||
		len(v.Settings()) != len(all) {
		t.Errorf("as settings %v, back %v, %v", v.Settings(), back.Settings(), err)
	}
	if v.Int("keys") != 7 || v.Float("hot-access") != 0.5 || v.Bool("batching") ||
		v.Duration("lease") != 2*time.Millisecond || v.Size("nic-memory") != 1<<20 ||
		v.Choice("index") != "sherman" || !v.Given("keys") {
		t.Errorf("given: %+v", v)
	}
}

func TestWrongSettingsAreRefusedInWords(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"keys", "0", "keys: expected 1 or more, not 0"},
		{"keys", "many", `keys: expected a whole number, not "many"`},
		{"hot-access", "1.5", "hot-access: expected 0 to 1, not 1.5"},
		{"hot-access", "NaN", "hot-access: expected 0 to 1, not NaN"},
		{"batching", "maybe", `batching: expected a true or false, not "maybe"`},
		{"lease", "5", `lease: expected a time, such as 2s or 500ms, not "5"`},
		{"lease", "1ns", "lease: expected 1µs to 1h0m0s, not 1ns: leases are counted in microseconds"},
		{"lease", "9999999h", "lease: 9999999h is too long"},
		{"nic-memory", "64", `nic-memory: expected a size with its unit, as 64MiB, not the bare number "64"`},
		{"nic-memory", "2GiB", "nic-memory: expected 1KiB to 1GiB, not 2GiB"},
		{"index", "btree", `index: expected race, sherman, not "btree"`},
		{"key", "1", "key: there is no such option; known: keys, hot-access, batching, lease, nic-memory, index"},
	} {
		_, err := all.Values(option.Settings{c.name: c.text})
		var wrong *option.Error
		if !errors.As(err, &wrong) || wrong.Option != c.name || err.Error() != c.want {
			t.Errorf("%s=%s: %v, want %q", c.name, c.text, err, c.want)
		}
	}
}

func TestSettingsTravelAsJSON(t *testing.T) {
	s := option.Settings{"keys": "7", "hot-access": "0.5", "batching": "true", "lease": "2ms", "index": "1e",
		"odd": "01", "quoted": `"`}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"batching":true,"hot_access":0.5,"index":"1e","keys":7,"lease":"2ms","odd":"01","quoted":"\""}`
	if string(b) != want {
		t.Errorf("got %s\nwant %s", b, want)
	}
	var back option.Settings
	if err := json.Unmarshal(b, &back); err != nil || !maps.Equal(back, s) {
		t.Errorf("back: %v, %v", back, err)
	}
	for _, wrong := range []string{`{"keys":[1]}`, `{"keys":null}`, `{"keys":{}}`, `[]`, `{`} {
		if err := json.Unmarshal([]byte(wrong), &back); err == nil {
			t.Errorf("%s is taken: %v", wrong, back)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add(`{"keys":7}`)
	f.Add(`{"lease":"1ms","keys":1e400}`)
	f.Fuzz(func(t *testing.T, text string) {
		var s, back option.Settings
		if json.Unmarshal([]byte(text), &s) != nil {
			return
		}
		_, _ = all.Values(s)
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &back); err != nil || !maps.Equal(s, back) {
			t.Errorf("%v became %v: %v", s, back, err)
		}
	})
}

func TestFlagsAreMadeOfTheOptionsOfSeveralOwners(t *testing.T) {
	shared, err := option.Union([]option.Owner{{Name: "a", Options: all},
		{Name: "b", Options: option.List{option.Int("keys", 5, 1, 9, "`N` of b"), option.Bool("odd", false, "odd")}}})
	if err != nil || len(shared) != len(all)+1 {
		t.Fatalf("%d options, %v", len(shared), err)
	}
	alike, err := option.Union([]option.Owner{{Name: "a", Options: option.List{option.Int("n", 1, 1, 9, "`N` x")}},
		{Name: "b", Options: option.List{option.Int("n", 2, 1, 9, "`N` x")}},
		{Name: "c", Options: option.List{option.Int("n", 1, 1, 9, "`N` x")}}})
	if want := "a, c, b: `N` x; default 1 (a, c), 2 (b)"; err != nil || alike[0].Help() != want {
		t.Errorf("help %q, %v, want %q", alike[0].Help(), err, want)
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	option.Register(f, shared)
	for flag, want := range map[string]string{"keys": "a: `N` keys; default 100; b: N of b; default 5",
		"lease": "a: `TIME` of a lease; default by round trip", "odd": "b: odd"} {
		if got := f.Lookup(flag).Usage; got != want {
			t.Errorf("help of --%s is %q, want %q", flag, got, want)
		}
	}
	if err := f.Parse([]string{"--keys=7", "--odd"}); err != nil {
		t.Fatal(err)
	}
	if got, want := option.Given(f, shared), (option.Settings{"keys": "7", "odd": "true"}); !maps.Equal(got, want) {
		t.Errorf("given %v, want %v", got, want)
	}
	if of := shared[0].Of("b"); of.Default != 5 || shared[0].Of("c").Default != 100 {
		t.Errorf("the option of b is %+v", of)
	}
	if err := f.Parse([]string{"--lease=soon"}); err == nil || !strings.Contains(err.Error(), "expected a time") {
		t.Errorf("--lease=soon: %v", err)
	}
	if _, err := option.Union([]option.Owner{{Name: "a", Options: all},
		{Name: "b", Options: option.List{option.Bool("keys", false, "odd")}}}); err == nil {
		t.Error("one name has two types")
	}
}

// TestEveryExampleIsTaken: a configuration file that shows every key loads.
func TestEveryExampleIsTaken(t *testing.T) {
	for _, o := range all {
		if _, err := o.Parse(o.Example()); err != nil {
			t.Errorf("%s: example %q: %v", o.Name, o.Example(), err)
		}
	}
}

func TestBugsPanic(t *testing.T) {
	v, err := all.Values(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, bug := range map[string]func(){
		"another type":   func() { v.Int("lease") },
		"unknown":        func() { v.Int("leases") },
		"no values":      func() { option.Values{}.Int("keys") },
		"bad name":       func() { option.Bool("Bad", false, "") },
		"name with ends": func() { option.Bool("bad-", false, "") },
		"bounds":         func() { option.Int("x", 1, 2, 1, "") },
		"no choices":     func() { option.Choice("x", nil, "") },
		"twice":          func() { _, _ = option.List{all[0], all[0]}.Values(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it is taken")
				}
			}()
			bug()
		})
	}
}
