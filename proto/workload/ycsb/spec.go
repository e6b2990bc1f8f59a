package ycsb

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
)

// Options by name.
const (
	OptLetter       = "letter"
	optOperations   = "operations"
	optDistribution = "distribution"
	optReads        = "reads"
	optRoom         = "room"
	optScanLength   = "scan-length"
	optStore        = "store"
)

// mostRoom for inserted records on a command line.
const mostRoom = 1 << 30

// Spec describes the workload.
func Spec() workload.Spec {
	d := Default(1)
	return workload.Spec{
		Name: "ycsb",
		Doc:  "Yahoo! Cloud Serving Benchmark A to F, single operations or transactions of several",
		Options: append(option.List{
			option.Choice(OptLetter, []string{"A", "B", "C", "D", "E", "F"}, "core workload `LETTER`: A 50 % reads, 50 % "+
				"updates; B 95 and 5; C reads; D 95 % reads of the latest, 5 % insertions; E 95 % "+
				"scans, 5 % insertions; F 50 % reads, 50 % read-modify-writes"),
			option.Int(optOperations, d.Operations, 1, keyvalue.MaxOps, "`N` operations per transaction; 5 in HADES"),
			option.Choice(optDistribution, []string{"default", "zipfian", "uniform", "latest"}, "distribution `NAME` of the records: default "+
				"(latest for D, else zipfian), zipfian (scrambled), uniform, latest"),
			option.Int(optReads, 0, 0, 100, "`PERCENT` of reads or scans, 90 in rTX's B; 0: that of the letter"),
			option.Int(optRoom, d.Room, 0, mostRoom, "D and E can insert `N` records per node"),
			option.Choice(optStore, keyvalue.StoreNames(), "index `NAME` by which clients find records, for A, B, C and F (HADES "+
				"§VII): table (none: the protocol finds them), hash, map (a binary tree), btree, bplustree"),
			option.Int(optScanLength, d.ScanLength, 1, mostScanned, "E scans 1 to `N` records"),
		}, keyvalue.Options(d.Keys, d.ValueBytes, d.Theta)...),
		Transactions: []workload.Transaction{
			{Name: "read", Percent: 50, ReadOnly: true, Doc: "reads a record (E: scans); with several operations: read-only"},
			{Name: "update", Percent: 50, Doc: "writes a record (D, E: insert; F: read-modify-write); with several " +
				"operations: read-write"},
		},
		Tables: []workload.Table{{Name: "records", Doc: "records on all nodes"}},
		Verify: "every record has a value that was written for its key; committed insertions (D, E) and read-modify-writes " +
			"(F) add up; a scan agrees with look-ups (E)",
		Words: words,
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			o, err := optionsOf(nodes, v)
			if err != nil {
				return nil, err
			}
			w, err := New(o)
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	}
}

func optionsOf(nodes int, v option.Values) (Options, error) {
	d, err := ParseDistribution(v.Choice(optDistribution))
	if err != nil {
		return Options{}, err
	}
	s, err := keyvalue.ParseStore(v.Choice(optStore))
	return Options{Nodes: nodes, Letter: v.Choice(OptLetter), Keys: v.Int(keyvalue.OptKeys), Room: v.Int(optRoom),
		ValueBytes: v.Int(keyvalue.OptValueBytes), KeyBytes: v.Int(keyvalue.OptKeyBytes),
		Operations: v.Int(optOperations), Distribution: d, Theta: v.Float(keyvalue.OptTheta),
		Reads: v.Int(optReads), Store: s, ScanLength: v.Int(optScanLength)}, err
}

func words(_ int, v option.Values) string {
	letter := v.Choice(OptLetter)
	def := definitions[letter]
	if r := v.Int(optReads); r > 0 {
		def.reads = r
	}
	if d, err := ParseDistribution(v.Choice(optDistribution)); err == nil && d != 0 {
		def.distribution = d
	}
	skew := def.distribution.String()
	if def.distribution != Uniform {
		skew = fmt.Sprintf("%s %g", skew, v.Float(keyvalue.OptTheta))
	}
	unit := "single operations"
	if n := v.Int(optOperations); n > 1 {
		unit = fmt.Sprintf("transactions of %d operations", n)
	}
	reads := "reads"
	if def.read == keyvalue.OpScan {
		reads = fmt.Sprintf("scans of 1 to %d records", v.Int(optScanLength))
	}
	text := fmt.Sprintf("%s, %s, %d %% %s, %s, %d records per node, keys of %d and values of %d bytes", letter,
		unit, def.reads, reads, skew, v.Int(keyvalue.OptKeys), v.Int(keyvalue.OptKeyBytes), v.Int(keyvalue.OptValueBytes))
	if s := v.Choice(optStore); s != keyvalue.NoStore.String() {
		text += ", store " + s
	}
	return text
}
