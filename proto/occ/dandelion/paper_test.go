package dandelion_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/occ/dandelion"
	"drtmd/proto/occ/occtest"
	"drtmd/proto/txctx"
	"drtmd/proto/workload/micro"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a protocol's row of Table 4, and the trips before its client hears of a commit.
type row struct {
	protocol node.Protocol
	locksAll bool // LOCK and COMMIT are about the read set, too, and VALIDATE is left out
	primary  bool // LOG reaches primaries
	inLog    bool // LOG locks, and is about the read set, too; COMMIT reaches all replicas
	trips    int
}

func rows() []row {
	return []row{{protocol: dandelion.Dnl4(), trips: 4}, {protocol: dandelion.Dnl2(), locksAll: true, primary: true, trips: 2},
		{protocol: dandelion.Dnl1(), locksAll: true, primary: true, inLog: true, trips: 1}}
}

const bytesFile = "testdata/bytes.txt"

var update = flag.Bool("update", false, "write the bytes that were sent to "+bytesFile)

// TestTable4: which phases reach which replicas, and the trips (§4.2.3); the bytes of requests and answers are those of
// bytesFile.
func TestTable4(t *testing.T) {
	var sent strings.Builder
	for _, r := range rows() {
		for _, s := range occtest.Shapes() {
			t.Run(fmt.Sprintf("%s/%+v", r.protocol.Name, s), func(t *testing.T) {
				got, want := occtest.Measure(t, r.protocol, nil, s)[1], r.table(s)
				fmt.Fprintf(&sent, "%s %+v", r.protocol.Name, s)
				for _, p := range proto.Phases() {
					if got[p].Requests > 0 {
						fmt.Fprintf(&sent, " %v %d", p, got[p].Bytes)
					}
					got[p].Bytes = 0
					if got[p] != want[p] {
						t.Errorf("%v: %+v, want %+v", p, got[p], want[p])
					}
				}
				fmt.Fprintln(&sent)
				trips := 0
				for _, p := range []proto.Phase{proto.PhaseLock, proto.PhaseValidate, proto.PhaseLog, proto.PhaseCommit} {
					trips += int(got[p].Trips)
				}
				if s.Writes > 0 && s.Reads > 0 && s.Replicas > 1 && trips != r.trips {
					t.Errorf("%d trips before the client hears, want %d", trips, r.trips)
				}
			})
		}
	}
	if *update {
		if err := os.WriteFile(bytesFile, []byte(sent.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(bytesFile)
	if err != nil {
		t.Fatal(err)
	}
	if sent.String() != string(want) {
		t.Errorf("bytes sent are not those of %s (-args -update writes it):\n%s", bytesFile, sent.String())
	}
}

// table is that of the package comment.
func (r row) table(s occtest.Shape) (x occtest.Traffic) {
	n := s.Nodes
	x.Count(proto.PhaseExecute, n, 0)
	holders, _ := s.Logs()
	switch {
	case s.Writes == 0:
		if s.Reads > 1 {
			x.Count(proto.PhaseValidate, n, 0)
		}
		return x
	case r.inLog && s.Replicas > 1:
		x.Count(proto.PhaseLog, n*s.Replicas, 0)
		x.Count(proto.PhaseCommit, n*s.Replicas, 0)
		x[proto.PhaseCommit].Trips = 0 // nobody waits
		return x
	}
	x.Count(proto.PhaseLock, n, 0)
	if !r.locksAll && s.Reads > 0 {
		x.Count(proto.PhaseValidate, n, 0)
	}
	x.Count(proto.PhaseCommit, n, 0)
	if s.Replicas == 1 {
		return x
	}
	if r.primary {
		holders += n
	}
	x.Count(proto.PhaseLog, holders, 0)
	if r.locksAll {
		x[proto.PhaseCommit].Trips = 0 // nobody waits
	}
	return x
}

// TestReadsAtBackups: of N nodes a share R/N of the reads takes no message (§4.3).
func TestReadsAtBackups(t *testing.T) {
	const replicas = 3
	for _, nodes := range []int{3, 5, 10} {
		var d proto.Decl
		for s := range nodes {
			d.Accesses = append(d.Accesses, occtest.Access(s, 0, false))
		}
		c := node.Config{Nodes: nodes, Replicas: replicas}
		got := occtest.MeasureOf(t, dandelion.Dnl4(), c, &d)
		if n := int(got[proto.PhaseExecute].Requests); n != nodes-replicas {
			t.Errorf("%d nodes: %d of %d records are read at other nodes, want %d", nodes, n, nodes, nodes-replicas)
		}
		// VALIDATE goes to the primaries.
		if n := int(got[proto.PhaseValidate].Requests); n != nodes-1 {
			t.Errorf("%d nodes: %d records are validated at other nodes, want %d", nodes, n, nodes-1)
		}
	}
}

// TestMessagesOfAnUpdate: the requests that a transaction takes of one record that it reads and writes, summed over
// all places of the record: with q = 1 - 1/N and e = 1 - R/N those of the paper's model, and one more of LOG where the
// coordinator is a backup, which Dnl-4 sends to the primary (package recovery).
func TestMessagesOfAnUpdate(t *testing.T) {
	const replicas = 3
	for _, r := range rows() {
		for _, nodes := range []int{3, 5, 10} {
			sum := map[proto.Phase]int{}
			for s := range nodes {
				d := proto.Decl{Accesses: []proto.Access{occtest.Access(s, 0, true)}}
				got := occtest.MeasureOf(t, r.protocol, node.Config{Nodes: nodes, Replicas: replicas}, &d)
				for _, p := range proto.Phases() {
					sum[p] += int(got[p].Requests)
				}
			}
			others := nodes - 1
			lock, log, unlock := others, others*(replicas-1), others
			switch {
			case r.inLog:
				lock, log, unlock = 0, others*replicas, others*replicas
			case r.primary:
				log = others * replicas
			default:
				log += replicas - 1
			}
			for p, want := range map[proto.Phase]int{proto.PhaseExecute: nodes - replicas, proto.PhaseLock: lock,
				proto.PhaseValidate: 0, proto.PhaseLog: log, proto.PhaseCommit: unlock} {
				if sum[p] != want {
					t.Errorf("%s, %d nodes, %v: %d requests for %d places, want %d", r.protocol.Name, nodes, p, sum[p],
						nodes, want)
				}
			}
		}
	}
}

// TestAsynchronousGetsShareATrip (§3): a client that asks for four records and then polls waits for one round trip, and
// its hosts get one message each; one that waits for each record waits for four.
func TestAsynchronousGetsShareATrip(t *testing.T) {
	var all []proto.Access
	for i := range 4 {
		all = append(all, occtest.Access(1+i%2, i, false))
	}
	w, err := micro.New(micro.Default(3))
	if err != nil {
		t.Fatal(err)
	}
	context := txctx.New(w.Tables())
	for _, x := range []struct {
		name            string
		program         func(tx proto.Txn) error
		requests, trips uint64
	}{
		{"asynchronous", func(tx proto.Txn) error {
			context.Init(tx)
			for _, a := range all {
				if _, err := context.Get(a.Table, a.Key); err != nil {
					return err
				}
			}
			return errors.Join(context.PollAll(), context.Flush())
		}, 2, 1},
		{"synchronous", func(tx proto.Txn) error {
			value := make([]byte, occtest.ValueBytes)
			for _, a := range all {
				if err := tx.Read(a.Table, a.Key, value); err != nil {
					return err
				}
			}
			return nil
		}, 4, 4},
	} {
		got := occtest.MeasureProgram(t, dandelion.Dnl4(), node.Config{Nodes: 3}, x.program)[proto.PhaseExecute]
		if got.Requests != x.requests || got.Trips != x.trips {
			t.Errorf("%s: %d requests in %d trips, want %d in %d", x.name, got.Requests, got.Trips, x.requests, x.trips)
		}
	}
}
