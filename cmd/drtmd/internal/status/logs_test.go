package status

import "testing"

// TestLogsInWords: the last recovery only where there was something to recover from.
func TestLogsInWords(t *testing.T) {
	l := Logs{Bytes: 2 << 20, Used: 1 << 19, Slots: 32, Taken: 3, Records: 1000, RestoredS: 0.0021, Found: 7, Completed: 2, Undone: 1}
	const full = "0.5 MiB of 2.0 MiB used, 3 of 32 slots, 1000 records written"
	if got := l.String(); got != full {
		t.Errorf("%q", got)
	}
	l.Attached, l.Waits, l.TooLong, l.Torn, l.Recovering = true, 4, 5, 6, 1
	const want = full + ", 4 waits for a slot, 5 attempts too long for one; last recovery: 7 records in 2.1ms, " +
		"2 transactions completed, 1 undone, 6 records torn; 1 are not finished"
	if got := l.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d := Data{ID: "a", Partition: 1, Partitions: 3, Workload: "tpcc", Protocol: "drtm", Runs: 2, Loaded: true}
	if got, want := d.String(), "partition 1 of 3 of data a (tpcc, drtm), used by 2 runs; not in use by the plane"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
