package workloads

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestEveryKindIsMadeFromTheDefaultsAsTheyTravel(t *testing.T) {
	b, err := json.Marshal(Default())
	if err != nil {
		t.Fatal(err)
	}
	var s Settings
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	if s != Default() {
		t.Errorf("settings %+v after the wire, want %+v", s, Default())
	}
	for _, k := range Kinds() {
		for _, nodes := range []int{1, 3} {
			w, words, err := New(k.Name, nodes, s)
			if err != nil {
				t.Errorf("%s for %d: %v", k.Name, nodes, err)
				continue
			}
			if w.Name() != k.Name || words == "" {
				t.Errorf("%s is called %s, with %q", k.Name, w.Name(), words)
			}
		}
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, workload string
		change         func(*Settings)
	}{
		{"no customers", "smallbank", func(s *Settings) { s.Accounts = -1 }},
		{"more than all of them distributed", "smallbank", func(s *Settings) { s.Distributed = 2 }},
		{"no keys", "micro", func(s *Settings) { s.Keys = -1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Default()
			c.change(&s)
			if _, _, err := New(c.workload, 2, s); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestUnknownWorkloadIsNamed(t *testing.T) {
	_, _, err := New("tpcc2", 1, Default())
	var unknown *UnknownError
	if !errors.As(err, &unknown) || unknown.Name != "tpcc2" {
		t.Errorf("error %v", err)
	}
}
