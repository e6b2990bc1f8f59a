package keyvalue

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/workload/zipf"
)

// Names of the options that all workloads of a Space have.
const (
	OptKeys       = "keys"
	OptValueBytes = "value-bytes"
	OptKeyBytes   = "key-bytes"
	OptTheta      = "theta"
)

// mostKeys per node on a command line.
const mostKeys = 1 << 30

// Options are those of a Space.
func Options(keys, valueBytes int, theta float64) option.List {
	return option.List{
		option.Int(OptKeys, keys, 1, mostKeys, "load `N` records per node"),
		option.Int(OptValueBytes, valueBytes, MinValueBytes, MaxValueBytes, "`N` bytes per value"),
		option.Int(OptKeyBytes, MinKeyBytes, MinKeyBytes, MaxKeyBytes, "`N` bytes per key; bytes beyond 8 "+
			"are stored with the value, and compared"),
		option.Float(OptTheta, theta, 0, zipf.MostTheta, "Zipf `THETA` of the records; 0: uniform"),
	}
}

// Words says what a Space is.
func Words(v option.Values) string {
	skew := "uniform"
	if theta := v.Float(OptTheta); theta > 0 {
		skew = fmt.Sprintf("Zipf %g", theta)
	}
	return fmt.Sprintf("%d records per node, keys of %d and values of %d bytes, %s", v.Int(OptKeys),
		v.Int(OptKeyBytes), v.Int(OptValueBytes), skew)
}
