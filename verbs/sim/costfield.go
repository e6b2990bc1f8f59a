package sim

import (
	"fmt"
	"reflect"
	"strings"
)

// costField is a leaf of a CostModel.
type costField struct {
	path  string
	value reflect.Value
}

// optional reports whether a model may lack the field, with all others of its section.
func (f costField) optional() bool { return strings.HasPrefix(f.path, "cores.") }

// costFields lists the leaves of a model, in order.
func costFields(c *CostModel) []costField {
	var out []costField
	var walk func(v reflect.Value, prefix string)
	walk = func(v reflect.Value, prefix string) {
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag.Get("cost")
			switch f := v.Field(i); {
			case tag == "":
			case f.Kind() == reflect.Struct:
				walk(f, prefix+tag+".")
			default:
				out = append(out, costField{path: prefix + tag, value: f})
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
	return out
}

// unit is a suffix and what it multiplies by.
type unit struct {
	name   string
	scale  int64
	digits int
}

var (
	bandwidthUnits = []unit{{"Gbps", 1e9, 9}, {"Mbps", 1e6, 6}, {"Tbps", 1e12, 12}}
	opRateUnits    = []unit{{"Mops", 1e6, 6}, {"Kops", 1e3, 3}, {"Gops", 1e9, 9}}
	bytesUnits     = []unit{{"B", 1, 0}, {"KiB", 1 << 10, 0}}
	countUnits     = []unit{{"units", 1, 0}}
	ratioUnits     = []unit{{"x", 1000, 3}}
	capacityUnits  = []unit{{"MiB", 1 << 20, 0}, {"GiB", 1 << 30, 0}}
)

// Bounds of what is not absurd.
const (
	maxCostTime            = 10 * Millisecond
	minBandwidth Bandwidth = 1e6
	maxBandwidth Bandwidth = 100e12
	minOpRate    OpRate    = 1e3
	maxOpRate    OpRate    = 1e12
	maxBytes     Bytes     = 1 << 20
	maxCount     Count     = 1 << 10
	maxRatio     Ratio     = 1e6
	maxCapacity  Capacity  = 1 << 44
)

func (f costField) parse(s string) error {
	var v int64
	var err error
	switch f.value.Interface().(type) {
	case Time:
		var t Time
		t, err = ParseTime(s)
		v = int64(t)
	case Bandwidth:
		v, err = parseUnit(s, bandwidthUnits)
	case OpRate:
		v, err = parseUnit(s, opRateUnits)
	case Bytes:
		v, err = parseUnit(s, bytesUnits)
	case Count:
		v, err = parseUnit(s, countUnits)
	case Ratio:
		v, err = parseUnit(s, ratioUnits)
	case Capacity:
		v, err = parseUnit(s, capacityUnits)
	default:
		panic(fmt.Sprintf("cost model: the key %s has a type without units", f.path))
	}
	if err != nil {
		return err
	}
	f.value.SetInt(v)
	return f.check()
}

func (f costField) check() error {
	v := f.value.Int()
	switch f.value.Interface().(type) {
	case Time:
		if v < 0 || v > int64(maxCostTime) {
			return fmt.Errorf("%s is out of range: it must be in 0..%s", Time(v), maxCostTime)
		}
	case Bandwidth:
		if v < int64(minBandwidth) || v > int64(maxBandwidth) {
			return fmt.Errorf("%d bit/s is out of range: it must be in 1 Mbps..100 Tbps", v)
		}
	case OpRate:
		if v < int64(minOpRate) || v > int64(maxOpRate) {
			return fmt.Errorf("%d operations/s is out of range: it must be in 1 Kops..1000 Gops", v)
		}
	case Bytes:
		if v < 0 || v > int64(maxBytes) || v == 0 && f.path == "pcie.tlp" {
			return fmt.Errorf("%d B is out of range: it must be in 0..%d B", v, maxBytes)
		}
	case Count:
		if v < 1 || v > int64(maxCount) {
			return fmt.Errorf("%d is out of range: it must be in 1..%d", v, maxCount)
		}
	case Ratio:
		if v < 1 || v > int64(maxRatio) {
			return fmt.Errorf("%d thousandths are out of range: it must be in 0.001x..%dx", v, maxRatio/1000)
		}
	case Capacity:
		if v < 1 || v > int64(maxCapacity) {
			return fmt.Errorf("%d B are out of range: it must be in 1 MiB..%d GiB", v, maxCapacity>>30)
		}
	}
	return nil
}

func parseUnit(s string, units []unit) (int64, error) {
	number, name := splitUnit(s)
	var known []string
	for _, u := range units {
		if u.name == name {
			return parseDecimal(number, u.scale, u.digits)
		}
		known = append(known, u.name)
	}
	list := strings.Join(known, ", ")
	if name == "" {
		return 0, fmt.Errorf("%q has no unit: write one of %s", s, list)
	}
	return 0, fmt.Errorf("%q: unit %q is not one of %s", s, name, list)
}
