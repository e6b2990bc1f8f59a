package sim

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var sourcePattern = regexp.MustCompile(`# ((measured|cited|derived): \S|assumed)`)

// Every constant of a preset says where it comes from.
func TestPresetsNameTheirSources(t *testing.T) {
	if len(Presets()) < 5 {
		t.Fatalf("presets: %v", Presets())
	}
	for _, name := range Presets() {
		c := preset(t, name)
		if c.Name != name {
			t.Errorf("preset %s calls itself %s", name, c.Name)
		}
		b, err := presetFiles.ReadFile("presets/" + name + ".yaml")
		must(t, err)
		for i, line := range strings.Split(string(b), "\n") {
			trimmed := strings.TrimSpace(line)
			if trimmed == "" || trimmed[0] == '#' || strings.HasPrefix(trimmed, "name:") ||
				strings.HasSuffix(trimmed, ":") {
				continue
			}
			if !sourcePattern.MatchString(line) {
				t.Errorf("%s:%d has no source: %s", name, i+1, trimmed)
			}
		}
	}
}

func TestPresetsAreFoundByTheirFamily(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"cx3-56g", "cx3-56g"},
		{"cx3", "cx3-56g"},
		{"cx5", "cx5-100g"},
		{"hades", "hades"},
		{"cx", ""},
		{"cx3-", ""},
		{"56g", ""},
		{"", ""},
	} {
		m, err := Preset(c.name)
		switch {
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), "known: cx3-56g, ")):
			t.Errorf("%q: %v", c.name, err)
		case c.want != "" && (err != nil || m.Name != c.want):
			t.Errorf("%q: %v, want %s", c.name, err, c.want)
		}
	}
}

// HADES Table III: 2 us from NIC to NIC and back, 200 Gb/s.
func TestHadesPresetHasThePapersRoundTrip(t *testing.T) {
	c := preset(t, "hades")
	if c.RoundTrip() != 2*Microsecond || c.Link.Rate != 200e9 {
		t.Fatalf("%s, %d bit/s", c.RoundTrip(), c.Link.Rate)
	}
}

func TestRatesAreExact(t *testing.T) {
	c := preset(t, "cx5-100g") // 100 Gb/s: 80 ps a byte
	if d := span(1000, c.rates().linkPerByte); d != 80*Nanosecond {
		t.Errorf("1000 B at 100 Gb/s: %s", d)
	}
	if d := span(1<<31, c.rates().linkPerByte); d != 80*(1<<31) {
		t.Errorf("2 GiB at 100 Gb/s: %s", d)
	}
	if got := c.wireBytes(4097); got != 4097+2*90 {
		t.Errorf("4097 B are %d on the wire", got)
	}
	if got := c.wireBytes(0); got != 90 {
		t.Errorf("an empty message is %d B on the wire", got)
	}
}

func TestACostFileMayBuildOnAPreset(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	must(t, os.WriteFile(file, []byte("name: mine\nbase: hades\nlink:\n  rate: 40 Gbps\n"), 0o600))
	c, err := LoadCost(file)
	must(t, err)
	h := preset(t, "hades")
	if c.Name != "mine" || c.Link.Rate != 40e9 || c.Link.Switch != h.Link.Switch || c.NIC != h.NIC {
		t.Fatalf("%+v", c)
	}
	if h.Link.Rate != 200e9 {
		t.Fatal("the preset was changed")
	}
}

func TestBadCostFilesAreRefusedWithLineAndReason(t *testing.T) {
	cases := []struct{ text, want string }{
		{"", "bad.yaml: empty"},
		{"name: x\n---\nname: y\n", "bad.yaml: more than one YAML document"},
		{"- a\n", "bad.yaml:1: not a mapping"},
		{"name: x\nbase: hades\nlimk:\n  rate: 1 Gbps\n",
			"bad.yaml:3: unknown key limk; known here: name, base, link, pcie, nic, cpu"},
		{"name: x\nbase: hades\nlink:\n  speed: 1 Gbps\n", "bad.yaml:4: unknown key link.speed; " +
			"known here: rate, mtu, header, propagation, switch"},
		{"name: x\nbase: hades\nlink:\n  rate: 40\n", `bad.yaml:4: link.rate: "40" has no unit`},
		{"name: x\nbase: hades\nlink:\n  rate: 40 GB/s\n", `bad.yaml:4: link.rate: "40 GB/s": unit`},
		{"name: x\nbase: hades\nlink:\n  switch: 5\n", `bad.yaml:4: link.switch: "5" has no unit`},
		{"name: x\nbase: hades\nlink:\n  switch: -5 ns\n", "bad.yaml:4: link.switch: -5 is negative"},
		{"name: x\nbase: hades\nlink:\n  switch: 5 s\n", "bad.yaml:4: link.switch: 5s is out of range"},
		{"name: x\nbase: hades\nlink:\n  rate: 0 Gbps\n", "bad.yaml:4: link.rate: 0 bit/s is out of range"},
		{"name: x\nbase: hades\nlink:\n  mtu: 1500 B\n", "bad.yaml:4: cost model \"x\": link.mtu: 1500"},
		{"name: x\nbase: hades\nnic:\n  in:\n    read: 1e3 Mops\n", "bad.yaml:5: nic.in.read: "},
		{"name: x\nbase: hades\nlink:\n  rate: 1 Gbps\n  rate: 2 Gbps\n", "bad.yaml:5: "},
		{"name: x\nbase: hades\nlink: 5\n", "bad.yaml:3: link must be a mapping"},
		{"name: x\nbase: hades\nlink:\n  rate: [1]\n", "bad.yaml:4: link.rate must be a single value"},
		{"name: x\nbase: cx9\n", "bad.yaml:2: base: unknown cost preset \"cx9\"; known: cx3-56g"},
		{"name: &a x\nbase: *a\n", "bad.yaml:1: name: anchors"},
		{"base: hades\n", "bad.yaml: the key name is missing"},
		{"name: x\nlink:\n  rate: 1 Gbps\n", "bad.yaml: the key link.mtu is missing"},
		{"name: x\n\tbase: hades\n", "bad.yaml:2: "},
	}
	for _, c := range cases {
		_, err := ParseCost("bad.yaml", []byte(c.text))
		var bad *CostFileError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := New(Config{Cost: &CostModel{}}); err == nil {
		t.Error("an empty cost model was taken")
	}
}

// Whatever the bytes, the decoder gives a model that a world can run on, or says why not.
func FuzzCostFile(f *testing.F) {
	for _, name := range Presets() {
		b, err := presetFiles.ReadFile("presets/" + name + ".yaml")
		must(f, err)
		f.Add(b)
	}
	f.Add([]byte("name: x\nbase: hades\nlink: {rate: 40 Gbps}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCost("fuzz.yaml", b)
		if err != nil {
			var bad *CostFileError
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		w, err := New(Config{Cost: c, EventLimit: 10_000})
		must(t, err)
		if r := w.rate; r.linkPerByte == 0 || r.pciePerByte == 0 || r.dmaRead < 0 {
			t.Fatalf("%+v", r)
		}
	})
}
