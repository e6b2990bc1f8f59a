package reproduce

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/fiber"
)

// Messages of a transaction of Dandelion: those that follow from Table 4 for the workloads of §7, which fit Tables 5 and
// 6 (messages = packet rate x nw-batch x machines / throughput), beside what the code sends.

// shape is a part of a workload: transactions that get some records, read and write others, and put others blindly.
type shape struct {
	share               float64
	gets, updates, puts int
}

func (s shape) records() int { return s.gets + s.updates + s.puts }

// shapesOf are the workloads of §7: SmallBank's Balance reads one key, TATP looks no subscriber's number up, and its
// transactions find what they look for.
var shapesOf = []struct {
	name     string
	measured map[int]float64 // with Dnl-4, by machines: Tables 5 and 6
	shapes   []shape
}{
	{"SmallBank", map[int]float64{3: 6.80, 5: 9.42}, []shape{{0.15, 0, 3, 0}, {0.15, 1, 0, 0}, {0.15, 0, 1, 0},
		{0.25, 0, 2, 0}, {0.15, 0, 1, 0}, {0.15, 1, 1, 0}}},
	{"TATP", map[int]float64{3: 1.344, 5: 2.460}, []shape{{0.70, 1, 0, 0}, {0.10, 2, 0, 0}, {0.02, 0, 2, 0},
		{0.14, 0, 1, 0}, {0.02, 1, 0, 1}, {0.02, 0, 1, 0}}},
	{"O(1,0)", nil, []shape{{1, 1, 0, 0}}},
	{"O(0,1)", nil, []shape{{1, 0, 0, 1}}},
	{"O(4,0)", nil, []shape{{1, 4, 0, 0}}},
	{"O(4,2)", nil, []shape{{1, 4, 0, 2}}},
}

// messagesOf are the messages of a transaction by Table 4: each request is of one record, and has an answer; unlocking
// has none of its own. A request to the own machine is no message.
func (s shape) messagesOf(protocol string, machines int) float64 {
	remote, elsewhere := 1-1/float64(machines), 1-copies/float64(machines) // the primary; all replicas
	gets, writes := float64(s.gets), float64(s.updates+s.puts)
	n := 2 * elsewhere * float64(s.gets+s.updates)
	switch {
	case writes == 0 && s.gets == 1:
	case writes == 0:
		n += 2 * remote * gets
	case protocol == dnl4Name:
		n += remote * (2*writes + 2*gets + 2*(copies-1)*writes + writes)
	case protocol == dnl2Name:
		n += remote * (2*(gets+writes) + 2*copies*writes + gets + writes)
	default:
		n += remote * 3 * copies * (gets + writes)
	}
	return n
}

// sentMessages are what transactions have sent.
type sentMessages struct {
	paper float64 // as Table 4 counts
	all   float64 // with the requests that only the code has, and answers to unlocking
	ours  float64 // all, where the records of a transaction on a node share a message
}

func (m *sentMessages) add(o sentMessages, share float64) {
	m.paper += share * o.paper
	m.all += share * o.all
	m.ours += share * o.ours
}

// messageRounds is how often a shape's records are placed anew.
const messageRounds = 8

// declare places a shape's records, one behind the other.
func (s shape) declare(shards []int) *proto.Decl {
	d := &proto.Decl{Kind: 1, ReadOnly: s.updates+s.puts == 0}
	for i, shard := range shards {
		a := proto.Access{Table: micro.Items, Key: proto.Key(shard)<<48 | proto.Key(2*i), Mode: proto.ModeWrite}
		if i < s.gets {
			a.Mode = proto.ModeRead
		}
		d.Accesses = append(d.Accesses, a)
	}
	return d
}

// run runs one transaction.
func (s shape) run(f *fiber.Fiber, e proto.Engine, d *proto.Decl) error {
	tx, err := e.Begin(f, d, 0)
	if err != nil {
		return err
	}
	value := make([]byte, micro.ValueBytes)
	for i, a := range d.Accesses {
		if i < s.gets+s.updates {
			err = tx.Read(a.Table, a.Key, value)
		}
		if err == nil && i >= s.gets {
			err = tx.Write(a.Table, a.Key, value)
		}
		if err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return f.Sleep(answersCome)
}

// countRecords has an engine count the records of its messages.
func countRecords(e proto.Engine) { e.(proto.RecordCounter).CountRecords() }

// measure runs transactions of a shape on node 0. Each of their records is on each machine equally often: the mean
// over them is exact, since each record has its own messages.
func (s shape) measure(f *fiber.Fiber, e proto.Engine, protocol string, machines int) (sum sentMessages, err error) {
	random := rand.New(rand.NewPCG(1, uint64(machines)))
	for range messageRounds {
		first := make([]int, s.records())
		for i := range first {
			first[i] = random.IntN(machines)
		}
		for turn := range machines {
			shards := make([]int, len(first))
			for i := range shards {
				shards[i] = (first[i] + turn) % machines
			}
			before := phases(e.Stats().Phases)
			if err := s.run(f, e, s.declare(shards)); err != nil {
				return sum, err
			}
			sent := phases(e.Stats().Phases).minus(before)
			sum.add(s.counted(protocol, machines, shards, sent), 1/float64(messageRounds*machines))
		}
	}
	return sum, nil
}

// counted are the messages of one transaction.
func (s shape) counted(protocol string, machines int, shards []int, sent phases) (m sentMessages) {
	var requests, records uint64
	for _, p := range []proto.Phase{proto.PhaseExecute, proto.PhaseLock, proto.PhaseValidate, proto.PhaseLog} {
		requests += sent[p].Requests
		records += sent[p].Records
	}
	unlocked := sent[proto.PhaseCommit]
	m.ours = 2 * float64(requests+unlocked.Requests)
	m.all = 2 * float64(records+unlocked.Records)
	only := 0
	for i, shard := range shards {
		behind := (machines - shard) % machines // of node 0: 0 is the primary
		local := behind < copies
		if i >= s.gets+s.updates && !local {
			only++ // a blind write reads its record
		}
		if protocol == dnl4Name && local && behind > 0 && (i >= s.gets || s.records() == 1) {
			only++ // the log record at the primary; the read there of a record that is read alone, and has a backup here
		}
	}
	m.paper = 2*(float64(records)-float64(only)) + float64(unlocked.Records)
	return m
}

// Bytes that package rpc puts before a request and before an answer in a datagram.
const (
	requestHead = 3
	answerHead  = 2
)

// bankBytes are the bytes of a message of SmallBank with Dnl-4: of one for each record, and of one as they are sent.
func (r *Run) bankBytes(machines, transactions int) (ofRecord, sent float64, err error) {
	w, err := bankBench.make(machines, bankBench.keys(r))
	if err != nil {
		return 0, 0, err
	}
	err = r.onClusterOf(w, dnl4Name, machines, func(f *fiber.Fiber, worker *node.Worker) error {
		countRecords(worker.Engine)
		client := w.NewClient(worker.Node, rand.New(rand.NewPCG(1, uint64(machines))))
		for range transactions {
			if err := runOnce(f, worker.Engine, client); err != nil {
				return err
			}
		}
		var all proto.Traffic
		for _, p := range proto.Phases() {
			if p != proto.PhaseTruncate {
				all.Add(worker.Engine.Stats().Phases[p])
			}
		}
		bytes := float64(all.Bytes + (requestHead+answerHead)*all.Requests)
		ofRecord, sent = bytes/float64(2*all.Records), bytes/float64(2*all.Requests)
		return nil
	})
	return ofRecord, sent, err
}

// runOnce runs a client's next transaction, which nobody else disturbs.
func runOnce(f *fiber.Fiber, e proto.Engine, client workload.Client) error {
	d, program := client.Next()
	tx, err := e.Begin(f, d, 0)
	if err != nil {
		return err
	}
	outcome := proto.Committed
	switch err = program.Execute(tx); {
	case err == nil:
		err = tx.Commit()
	case errors.Is(err, proto.ErrRollback):
		outcome, err = proto.RolledBack, tx.Rollback()
	}
	if err != nil {
		return err
	}
	client.Done(outcome)
	return f.Sleep(answersCome)
}

// bytesOfMessages adds the rows of SmallBank's messages.
func (o *Outcome) bytesOfMessages(r *Run) error {
	const paper, bound = 15.2, 0.20 // goodput over packet rate times nw-batch: 15.0 to 15.4
	for _, machines := range pick(r, []int{3, 5, 9}, []int{5}) {
		ofRecord, sent, err := r.bankBytes(machines, pick(r, 20_000, 500))
		if err != nil {
			return err
		}
		what := fmt.Sprintf("SmallBank, %d machines, Dnl-4: bytes of a message", machines)
		o.Rows = append(o.Rows, number{what: what, unit: "B", section: "Table 6", printed: fixed(paper, 1), paper: paper,
			digits: 1, limit: share(bound), reading: "goodput over packet rate times nw-batch; a message for each record, and for " +
				"each answer; keys of 18 million records of a machine take a byte more in requests than ours"}.seen(ofRecord),
			number{what: what + " as it is sent", unit: "B", digits: 1}.seen(sent))
	}
	return nil
}

// dandelionMessages counts messages.
func dandelionMessages(r *Run) (*Outcome, error) {
	o := &Outcome{Conditions: fmt.Sprintf("%d replicas; transactions of node 0, of which each record is on each machine "+
		"equally often; a record's request is a message, and so is its answer; nothing is drawn but which records share a "+
		"machine", copies)}
	protocols := []struct{ title, name string }{{"Dnl-4", dnl4Name}, {"Dnl-2", dnl2Name}, {"Dnl-1", dnl1Name}}
	sizes := []int{3, 5, 10}
	for i, machines := range sizes {
		for j, p := range protocols {
			if err := r.step(i*len(protocols)+j, len(sizes)*len(protocols)); err != nil {
				return nil, err
			}
			err := r.onCluster(p.name, machines, func(f *fiber.Fiber, w *node.Worker) error {
				countRecords(w.Engine)
				for _, x := range shapesOf {
					var sent sentMessages
					paper := 0.0
					for _, s := range x.shapes {
						got, err := s.measure(f, w.Engine, p.name, machines)
						if err != nil {
							return fmt.Errorf("%s, %s: %w", p.title, x.name, err)
						}
						sent.add(got, s.share)
						paper += s.share * s.messagesOf(p.name, machines)
					}
					o.messages(fmt.Sprintf("%s, %d machines, %s", x.name, machines, p.title), paper, sent)
					if seen := x.measured[machines]; seen > 0 && p.name == dnl4Name {
						o.Rows = append(o.Rows, number{what: fmt.Sprintf("%s, %d machines, %s: measured there", x.name, machines,
							p.title), section: "Tables 5, 6", printed: fixed(seen, 2), paper: seen, digits: 2, limit: share(0.02),
							reading: "packet rate times nw-batch times machines over throughput"}.seen(sent.paper))
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return o, o.bytesOfMessages(r)
}

// messages adds the rows of a workload.
func (o *Outcome) messages(what string, paper float64, sent sentMessages) {
	bound := share(0.01)
	if paper == 0 {
		bound = within(0)
	}
	o.Rows = append(o.Rows, number{what: what, section: table4, printed: fixed(paper, 2), paper: paper, digits: 2,
		limit: bound, reading: "steps of Table 4 only, and no answers to unlocking"}.seen(sent.paper),
		number{what: what + ": all that is sent", digits: 2, reading: "with reads of blind writes, answers to unlocking, and Dnl-4's " +
			"log records at primaries and requests for a record that is read alone and has a backup here"}.seen(sent.all),
		number{what: what + ": in messages of a node's records", digits: 2}.seen(sent.ours))
}
