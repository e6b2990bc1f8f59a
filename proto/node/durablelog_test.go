package node_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
func leaveKept(t *testing.T, dir string, change func(logs [][]byte)) {
	t.Helper()
	c, err := node.NewLocal(context.Background(), durable(dir, false))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Stop()
	change(logsOf(c))
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
		{"another version", func(b []byte) { b[8] = 9 }, nil, "version 9, and this program reads version 1"},
		{"a wrong checksum", func(b []byte) { b[16]++ }, nil, "a wrong checksum"},
		{"none", func(b []byte) { clear(b[:64]) }, nil, "kept without the option durable"},
		{"other fibers", nil, func(c *node.LocalConfig) { c.Fibers = 7 }, "8 slots of 131008 bytes"},
		{"of another node", nil, func(c *node.LocalConfig) {
			c.Keep = func(n proto.NodeID) string { return []string{"node1", "node0", "node2"}[n] }
		}, "of node 1, worker 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			leaveKept(t, dir, func(logs [][]byte) {
				if c.change != nil {
					c.change(logs[0])
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
	b := append(make([]byte, 32), body...)
	put.PutUint32(b[4:], uint32(len(body)))
	put.PutUint16(b[8:], kind)
	put.PutUint16(b[10:], entries)
	put.PutUint64(b[16:], 1)
	put.PutUint64(b[24:], word)
	put.PutUint32(b, crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// TestARecordThatIsCutWithItsChecksumIsRefused: of the value of its last update, the padding is missing.
func TestARecordThatIsCutWithItsChecksumIsRefused(t *testing.T) {
	raceskip.Processes(t)
	dir := filepath.Join(t.TempDir(), "run")
	leaveKept(t, dir, func(logs [][]byte) {
		slot := logs[0][64:]
		slot[0] = 1
		body := make([]byte, 41)
		body[4], body[32] = 1, 1 // table, bytes of the value
		copy(slot[64:], logRecord(2, 1, 0, body))
	})
	_, err := node.NewLocal(context.Background(), durable(dir, true))
	if !errors.Is(err, drtm.ErrLog) || !strings.Contains(err.Error(), "a value of 1 bytes") {
		t.Error(err)
	}
}

// TestMoreIsRecoveredThanAnEngineOwes: logs may name more records than living transactions can owe something at.
// Nothing of that is left behind, for which the cluster would wait.
func TestMoreIsRecoveredThanAnEngineOwes(t *testing.T) {
	raceskip.Processes(t)
	const entries, word = 5000, 1<<63 | 1 // a lock that is nowhere
	dir := filepath.Join(t.TempDir(), "run")
	leaveKept(t, dir, func(logs [][]byte) {
		slot := logs[0][64:]
		slot[0] = 1
		body := make([]byte, 24*entries)
		for i := range entries {
			body[24*i+4], body[24*i+17] = 1, 16 // table, place
		}
		copy(slot[64:], logRecord(1, entries, word, body))
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
		leaveKept(t, dir, func(logs [][]byte) {
			slot := logs[0][64:]
			slot[0] = 1                                 // its generation
			b := append([]byte(nil), slot[64:][:80]...) // a record with one update of a region
			put := binary.LittleEndian
			put.PutUint32(b[4:], 48)
			put.PutUint16(b[8:], 2)  // write-ahead
			put.PutUint16(b[10:], 1) // update
			put.PutUint64(b[16:], 1)
			put.PutUint16(b[32+4:], 1) // table
			put.PutUint16(b[32+6:], 3) // a value, of a region
			put.PutUint64(b[32+8:], key)
			put.PutUint64(b[32+24:], 1<<32|version)
			put.PutUint32(b[32+32:], 8)
			put.PutUint64(b[32+40:], 77)
			put.PutUint32(b, crc32.Checksum(b[4:], crc32.MakeTable(crc32.Castagnoli)))
			if torn {
				clear(b[72:])
			}
			copy(slot[64:], b)
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
	if !errors.Is(err, drtm.ErrConfig) || !strings.Contains(err.Error(), "log-bytes of 4096 bytes for 128 transactions") {
		t.Error(err)
	}
}
