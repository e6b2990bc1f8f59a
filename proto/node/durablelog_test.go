package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"drtmd/htm"
	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/option"
)

// logsOf gives the log areas of the first worker of each node of a cluster at rest.
func logsOf(c *node.Cluster) (all [][]byte) {
	for _, m := range c.Members {
		w := m.Workers[0]
		all = append(all, w.Memory.Bytes[w.Log.At:][:w.Log.Bytes])
	}
	return all
}

// leaveKept makes a cluster in kept memory, changes its logs when it is at rest, and closes it.
func leaveKept(t *testing.T, dir string, change func(c *node.Cluster)) {
	t.Helper()
	c, err := node.NewLocal(context.Background(), durable(dir, false))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Stop()
	change(c)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLogsThatAreNotTheClustersAreRefused in words, and stay as they are: the program that wrote them can still go on.
func TestLogsThatAreNotTheClustersAreRefused(t *testing.T) {
	raceskip.Processes(t)
	for _, c := range []struct {
		name   string
		change func(head []byte)
		config func(*node.LocalConfig)
		want   string
	}{
		{"another version", func(b []byte) { b[8] = 9 }, nil, "version 9, and this program reads version 3"},
		{"a wrong checksum", func(b []byte) { b[16]++ }, nil, "a wrong checksum"},
		{"none", func(b []byte) { clear(b[:64]) }, nil, "kept without the option durable"},
		{"other fibers", nil, func(c *node.LocalConfig) { c.Fibers = 7 }, "8 slots of 131008 bytes"},
		{"of another node", nil, func(c *node.LocalConfig) {
			c.Keep = func(n proto.NodeID) string { return []string{"node1", "node0", "node2"}[n] }
		}, "of node 1, worker 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			leaveKept(t, dir, func(left *node.Cluster) {
				if c.change != nil {
					c.change(logsOf(left)[0])
				}
			})
			cfg := durable(dir, true)
			if c.config != nil {
				c.config(&cfg)
			}
			for range 2 { // the second time as the first: nothing was changed
				_, err := node.NewLocal(context.Background(), cfg)
				if !errors.Is(err, drtm.ErrLog) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
		})
	}
}

// logRecord makes a record of the first generation of a slot, with its checksum, behind which the body follows.
func logRecord(kind, entries uint16, word uint64, body []byte) []byte {
	put := binary.LittleEndian
	b := append(make([]byte, 40), body...)
	put.PutUint32(b[4:], uint32(len(body)))
	put.PutUint16(b[8:], kind)
	put.PutUint16(b[10:], entries)
	put.PutUint64(b[16:], 1)
	put.PutUint64(b[24:], word)
	put.PutUint32(b, crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Flags of the update of a region, with a value, and of one that the transaction has locked; of a part of a value.
const (
	valueInRegion = 3
	valueLocked   = 1
	part          = 4
)

// putRecord puts a record of logRecord into the first slot of node 0.
func putRecord(c *node.Cluster, record []byte) {
	slot := logsOf(c)[0][64:]
	slot[0] = 1 // its generation
	copy(slot[64:], record)
}

// lockEntry is an entry of a lock-ahead record, of table 1 and key 0.
func lockEntry(n, shard uint16, place int) []byte {
	b := make([]byte, 24)
	put := binary.LittleEndian
	put.PutUint16(b, n)
	put.PutUint16(b[2:], shard)
	put.PutUint16(b[4:], 1)
	put.PutUint64(b[16:], uint64(place))
	return b
}

// writeEntry is an entry of a write-ahead record with an update to 77 at a key of table 1 on node 0.
func writeEntry(flags uint16, key, version uint64, place int) []byte {
	b := append(lockEntry(0, 0, place), make([]byte, 24)...)
	put := binary.LittleEndian
	put.PutUint16(b[6:], flags)
	put.PutUint64(b[8:], key)
	put.PutUint64(b[24:], version)
	put.PutUint32(b[32:], 8)
	put.PutUint64(b[40:], 77)
	return b
}

// TestARecordThatIsCutWithItsChecksumIsRefused: of the value of its last update, the padding is missing.
func TestARecordThatIsCutWithItsChecksumIsRefused(t *testing.T) {
	raceskip.Processes(t)
	dir := filepath.Join(t.TempDir(), "run")
	leaveKept(t, dir, func(c *node.Cluster) {
		body := make([]byte, 41)
		body[4], body[32] = 1, 1 // table, bytes of the value
		putRecord(c, logRecord(2, 1, 0, body))
	})
	_, err := node.NewLocal(context.Background(), durable(dir, true))
	if !errors.Is(err, drtm.ErrLog) || !strings.Contains(err.Error(), "a value of 1 bytes") {
		t.Error(err)
	}
}

// TestARecordThatCannotBeCarriedOutIsRefused: it names the record, and the logs stay as they are.
func TestARecordThatCannotBeCarriedOutIsRefused(t *testing.T) {
	raceskip.Processes(t)
	const word = 1<<63 | 1 // a lock that is nowhere
	for _, c := range []struct {
		name   string
		record func(place int) []byte // place is that of key 0 of table 1 on node 0
		config func(*node.LocalConfig)
		want   string
	}{
		{"a lock in a shard that its node does not hold", func(place int) []byte {
			return logRecord(1, 1, word, lockEntry(1, 2, place))
		}, nil, `table "accounts", key 0: node 1 has no replica of shard 2`},
		{"a lock where no record can be", func(place int) []byte {
			return logRecord(1, 1, word, lockEntry(0, 0, place+8))
		}, nil, `table "accounts", key 0: no record can be at `},
		{"an update where no record can be", func(int) []byte {
			return logRecord(2, 1, word, writeEntry(valueLocked, 0, 1<<32|1<<20, 1<<30))
		}, nil, `table "accounts", key 0: no record can be at 0x40000000 on node 0`},
		{"a part of a value, of another version than the next one", func(int) []byte {
			return logRecord(2, 1, 0, writeEntry(valueInRegion|part, 1, 1<<32|1<<20, 0))
		}, nil, `table "accounts", key 1: it is at version 1.0, and the log has a part of version 1.1048576`},
		{"another value of the version that is there", func(int) []byte {
			return logRecord(2, 1, 0, writeEntry(valueInRegion, 1, 1<<32, 0))
		}, nil, `table "accounts", key 1: the value of version 1.0 in the tables is not that in the log`},
		{"a part of another value of that version", func(int) []byte {
			return logRecord(2, 1, 0, writeEntry(valueInRegion|part, 1, 1<<32, 0))
		}, nil, `table "accounts", key 1: the value of version 1.0 in the tables is not that in the log`},
		{"a part that ends behind the value", func(int) []byte {
			b := writeEntry(valueInRegion|part, 1, 1<<32|1, 0)
			b[36] = 8
			return logRecord(2, 1, 0, b)
		}, nil, "a value of 8 bytes from 8 on for table 1, whose values have "},
		{"a part of no value", func(int) []byte {
			return logRecord(2, 1, 0, writeEntry(part, 1, 1<<32|1, 0))
		}, nil, "a value of 8 bytes from 0 on for table 1, whose values have "},
		{"an update that no region can make", func(int) []byte {
			return logRecord(2, 1, 0, writeEntry(valueInRegion, 1, 1<<32|1<<20, 0))
		}, func(c *node.LocalConfig) { c.Geometry = htm.Geometry{LineBytes: 64, Sets: 1, Ways: 1, ReadLines: 1} },
			`table "accounts", key 1: the update to version 1.1048576 cannot be made: its region has aborted 64 times, ` +
				`at last by capacity`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			leaveKept(t, dir, func(left *node.Cluster) {
				place, _ := left.Members[0].Workers[0].Tables[0].Find(0)
				putRecord(left, c.record(place))
			})
			cfg := durable(dir, true)
			if c.config != nil {
				c.config(&cfg)
			}
			for range 2 {
				_, err := node.NewLocal(context.Background(), cfg)
				if !errors.Is(err, drtm.ErrLog) || !strings.Contains(err.Error(), "node 0, worker 0, slot 0: "+c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			}
		})
	}
}

// TestMoreIsRecoveredThanAnEngineOwes: logs may name more records than living transactions can owe something at.
// Nothing of that is left behind, for which the cluster would wait.
func TestMoreIsRecoveredThanAnEngineOwes(t *testing.T) {
	raceskip.Processes(t)
	const entries, word = 5000, 1<<63 | 1 // a lock that is nowhere
	dir := filepath.Join(t.TempDir(), "run")
	leaveKept(t, dir, func(c *node.Cluster) {
		place, _ := c.Members[0].Workers[0].Tables[0].Find(0)
		putRecord(c, logRecord(1, entries, word, bytes.Repeat(lockEntry(0, 0, place), entries)))
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := node.NewLocal(ctx, durable(dir, true))
	if err != nil {
		t.Fatal(err)
	}
	if s := recovery(c); s.Found != 1 || s.Undone != 1 || s.Recovering != 0 || s.Taken != 0 {
		t.Errorf("%+v", s)
	}
	if err := errors.Join(c.Stop(), c.Close()); err != nil {
		t.Error(err)
	}
}

// TestATornLogRecordIsCountedAndNotApplied: a write-ahead record of which the end is missing changes nothing, whatever
// it says; one that is whole is made.
func TestATornLogRecordIsCountedAndNotApplied(t *testing.T) {
	raceskip.Processes(t)
	const key, version = 1, 1 << 20
	for _, torn := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "run")
		leaveKept(t, dir, func(c *node.Cluster) {
			b := logRecord(2, 1, 0, writeEntry(valueInRegion, key, 1<<32|version, 0))
			if torn {
				clear(b[80:])
			}
			putRecord(c, b)
		})
		c, err := node.NewLocal(context.Background(), durable(dir, true))
		if err != nil {
			t.Fatal(err)
		}
		s := recovery(c)
		want := proto.LogStats{Bytes: s.Bytes, Slots: s.Slots, Found: 1, Completed: 1}
		value := uint64(77)
		if torn {
			want.Found, want.Completed, want.Torn, value = 0, 0, 1, durableMoney
		}
		if s != want {
			t.Errorf("torn %t: %+v, want %+v", torn, s, want)
		}
		got := money(0)
		err = errors.Join(c.Stop(), c.Read(1, key, got), c.Close())
		if err != nil || binary.LittleEndian.Uint64(got) != value {
			t.Errorf("torn %t: the record is %d, %v, want %d", torn, binary.LittleEndian.Uint64(got), err, value)
		}
	}
}

// TestALogWithoutRoomIsRefused: the smallest log has no room for so many transactions at a time.
func TestALogWithoutRoomIsRefused(t *testing.T) {
	cfg := durable(filepath.Join(t.TempDir(), "run"), false)
	cfg.Keep, cfg.Fibers = nil, 64
	cfg.Options = option.Settings{"durable": "true", "log-bytes": "4KiB"}
	_, err := node.NewLocal(context.Background(), cfg)
	if !errors.Is(err, drtm.ErrConfig) || !strings.Contains(err.Error(), "log-bytes of 4KiB for 128 slots: give at least 17KiB") {
		t.Error(err)
	}
}

// TestALogWithoutRoomForTheLongestTransactionIsRefused, with the size that is enough: it would be tried for ever.
func TestALogWithoutRoomForTheLongestTransactionIsRefused(t *testing.T) {
	for _, chopped := range []string{"false", "true"} {
		cfg := durable(filepath.Join(t.TempDir(), "run"), false)
		cfg.Keep, cfg.Fibers, cfg.Workload = nil, 3, wide{cfg.Workload}
		cfg.Options = option.Settings{"durable": "true", "chopped": chopped, "log-bytes": "64KiB"}
		complete := func() error {
			c := cfg
			return c.Complete()
		}
		err := complete()
		_, least, told := strings.Cut(fmt.Sprint(err), "give at least log-bytes ")
		if !errors.Is(err, drtm.ErrConfig) || !told {
			t.Fatalf("chopped %s: %v", chopped, err)
		}
		cfg.Options["log-bytes"] = least
		if err := complete(); err != nil {
			t.Errorf("chopped %s, log-bytes %s: %v", chopped, least, err)
		}
		n, err := strconv.Atoi(strings.TrimSuffix(least, "KiB"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Options["log-bytes"] = fmt.Sprintf("%dKiB", n-1)
		if err := complete(); !errors.Is(err, drtm.ErrConfig) {
			t.Errorf("chopped %s, log-bytes %dKiB: %v", chopped, n-1, err)
		}
	}
}
