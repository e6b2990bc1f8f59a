package hades

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"drtmd/htm/directory"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/history"
	"drtmd/proto/recovery"
	"drtmd/verbs/fiber"
)

// Recovery, when the members have changed and no transaction runs. Each node finishes what its own transactions have
// committed, and says that it is quiet. Then only the dead have something left. The first node that lives decides about it,
// in rounds: each goes to all nodes that live, and the next one begins when all have answered.
//
//	list    every node tells the records that it keeps of transactions of the dead
//	ask     every node is told all of these, and says what it has seen of them (package recovery)
//	keep    every replica keeps the records of those that commit
//	end     these are applied, the others dropped
//	go      locks of the dead are given back, and transactions begin
//
// A node that dies in between changes the members again, and all begins anew with what is left. After keep every replica
// has all that it needs to apply, whoever dies.

// mail is the kind of a message of recovery.
type mail uint8

const (
	mailQuiet mail = iota + 1
	mailList
	mailAsk
	mailKeep
	mailEnd
	mailGo
	mailAnswer
	mailCopy
	mailCopied
)

// A message of recovery, little endian:
//
//	0      1       9 ...
//	+------+-------+------
//	| kind | epoch | what it says
//	+------+-------+------
//
// What it says are items, each with the ID of a transaction.
const mailHead = 9

var le = binary.LittleEndian

// recovering is a recovery of the present epoch.
type recovering struct {
	// Of who decides: the round, nodes that have not answered, and what is known.
	round   mail
	missing int
	found   []*found
	asked   []*found // of every node: what it was told
}

// found is a transaction of a node that is gone.
type found struct {
	id       hardware.ID
	epoch    uint64
	writes   []recovery.Write
	body     []byte // of all that is known
	votes    []recovery.Vote
	decision recovery.Decision
}

func (v *view) send(n proto.NodeID, k mail, says []byte) {
	b := append(le.AppendUint64([]byte{byte(k)}, v.epoch), says...)
	v.c.Mail(hardware.NodeID(n), b)
}

// mail is the hook of the model.
func (v *view) mail(from hardware.NodeID, b []byte) {
	k, epoch, says := mail(b[0]), le.Uint64(b[1:]), b[mailHead:]
	n := proto.NodeID(from)
	if k == mailQuiet {
		v.quiet[n] = max(v.quiet[n], epoch)
		v.wake()
		return
	}
	if epoch != v.epoch || v.stops {
		return // of another view
	}
	switch k {
	case mailAnswer:
		if r := &v.recovery; mail(says[0]) == r.round {
			v.answered(n, says[1:])
			r.missing--
			v.wake()
		}
	case mailCopy:
		v.sayCopies(n, says)
	case mailCopied:
		v.takeCopies(says)
	default:
		if answer := v.serve(k, says); v.trouble == nil {
			v.send(n, mailAnswer, append([]byte{byte(k)}, answer...))
		}
	}
}

// lead has the node be quiet, and decides if that is for it to do.
func (e *Engine) lead(f *fiber.Fiber, turn uint64) error {
	v := e.chip.view
	err := e.awaitView(f, turn, func() bool { return v.c.Unsettled() == 0 })
	if err != nil || v.turn != turn {
		return err
	}
	decider := proto.NodeID(slices.Index(v.lives, true))
	if decider != v.self() {
		v.send(decider, mailQuiet, nil)
		return nil
	}
	v.quiet[v.self()] = v.epoch
	if err := e.awaitView(f, turn, v.allQuiet); err != nil || v.turn != turn {
		return err
	}
	r := &v.recovery
	for _, next := range []struct {
		round mail
		step  string
		says  func() []byte
	}{
		{mailList, stepListed, func() []byte { return nil }},
		{mailAsk, stepDecided, v.sayFound},
		{mailKeep, stepKept, v.sayCommitted},
		{mailEnd, stepEnded, v.sayDecisions},
	} {
		says := next.says()
		r.round = next.round
		for n, lives := range v.lives {
			if lives && proto.NodeID(n) != v.self() {
				r.missing++
				v.send(proto.NodeID(n), next.round, says)
			}
		}
		v.answered(v.self(), v.serve(next.round, says))
		if v.trouble != nil {
			return v.trouble
		}
		if err := e.awaitView(f, turn, func() bool { return r.missing == 0 }); err != nil || v.turn != turn {
			return err
		}
		if next.round == mailAsk {
			v.decide()
		}
		if f.Step(next.step); v.turn != turn {
			return nil
		}
	}
	v.record()
	for n, lives := range v.lives {
		if lives && proto.NodeID(n) != v.self() {
			v.send(proto.NodeID(n), mailGo, nil)
		}
	}
	v.serve(mailGo, nil)
	return nil
}

func (v *view) allQuiet() bool {
	for n, lives := range v.lives {
		if lives && v.quiet[n] < v.epoch && !v.c.lacks(decidedUnquiet) {
			return false
		}
	}
	return true
}

// serve does what a round asks of the node, and gives the answer.
func (v *view) serve(k mail, says []byte) (answer []byte) {
	switch k {
	case mailList:
		for i := range v.kept {
			if x := &v.kept[i]; v.gone(x.id) {
				answer = appendItem(answer, x.id, x.body)
			}
		}
	case mailAsk:
		v.recovery.asked = nil
		for len(says) > 0 {
			x := &found{}
			var body []byte
			x.id, body, says = takeItem(says)
			x.body = slices.Clone(body)
			x.writes, x.epoch = v.body(x.body)
			v.recovery.asked = append(v.recovery.asked, x)
			answer = appendItem(answer, x.id, v.seen(x))
		}
	case mailKeep:
		for len(says) > 0 {
			var id hardware.ID
			id, _, says = takeItem(says)
			v.forget(id)
			v.Keep(id, v.asked(id).body)
		}
	case mailEnd:
		for len(says) > 0 && v.trouble == nil {
			var id hardware.ID
			var decision []byte
			id, decision, says = takeItem(says)
			v.trouble = v.end(v.asked(id), recovery.Decision(decision[0]))
		}
	case mailGo:
		v.c.Forget()
		v.forgetUsers()
		v.resume(v.epoch)
	}
	return answer
}

// gone reports whether a transaction is one of a node that is gone, or of an earlier life.
func (v *view) gone(id hardware.ID) bool {
	return proto.NodeID(id.Node) != v.self() && v.c.Gone(id)
}

func (v *view) asked(id hardware.ID) *found {
	i := slices.IndexFunc(v.recovery.asked, func(x *found) bool { return x.id == id })
	invariant.Assert(i >= 0, "hades: a decision about a transaction that nobody has asked for")
	return v.recovery.asked[i]
}

// seen is what the node has seen of a transaction: for each shard that it writes and has a replica here, two bytes with its
// number, and recovery.Seen.
func (v *view) seen(x *found) (answer []byte) {
	for i, s := range x.shards() {
		if i > 0 && slices.Contains(x.shards()[:i], s) || v.share(s) == nil {
			continue
		}
		var seen recovery.Seen
		if v.records(x.id, s) {
			seen = recovery.SeenRecord
		}
		switch {
		case slices.Contains(v.applied[x.id.Node], x.id):
			seen |= recovery.SeenApplied
		case v.serves(s, x.epoch) && !v.c.Holds(x.id):
			seen |= recovery.SeenApplied // its Validation gave the lock back
		}
		answer = append(le.AppendUint16(answer, uint16(s)), byte(seen))
	}
	return answer
}

// records reports whether the node keeps what a transaction writes to a shard. A replica that is new since then does not,
// though the node may keep a record for another shard.
func (v *view) records(id hardware.ID, s proto.ShardID) bool {
	k := v.find(id)
	if k == nil || v.fills(s) {
		return false
	}
	writes, _ := v.body(k.body)
	return !slices.ContainsFunc(writes, func(w recovery.Write) bool {
		return w.Shard == s && w.Version.Live() && w.Value == nil
	})
}

// shards that it writes, some of them more than once.
func (x *found) shards() (all []proto.ShardID) {
	for i := range x.writes {
		all = append(all, x.writes[i].Shard)
	}
	return all
}

// errNoRoom: a replica cannot take what was committed.
var errNoRoom = errors.New("a replica has no room for a record that was committed: its table is too small")

// end carries a decision out. An error is the node's trouble: it keeps the record, and says nothing more in this recovery,
// so that no transaction begins on a replica that lacks it.
func (v *view) end(x *found, d recovery.Decision) error {
	if d == recovery.Abort || slices.Contains(v.applied[x.id.Node], x.id) {
		v.forget(x.id)
		return nil
	}
	holds := v.c.Holds(x.id)
	due := func(s proto.ShardID) bool { return holds || !v.serves(s, x.epoch) }
	if v.applyAll(x.id, x.writes, due) {
		return nil
	}
	v.reclaim() // entries of deleted records
	if v.applyAll(x.id, x.writes, due) {
		return nil
	}
	return fmt.Errorf("hades: node %d, transaction %d of node %d: %w", v.self(), x.id.Number(), x.id.Node, errNoRoom)
}

// answered takes the answer to a round.
func (v *view) answered(n proto.NodeID, says []byte) {
	r := &v.recovery
	for len(says) > 0 {
		var id hardware.ID
		var item []byte
		id, item, says = takeItem(says)
		at := slices.IndexFunc(r.found, func(x *found) bool { return x.id == id })
		switch r.round {
		case mailList:
			writes, epoch := v.body(slices.Clone(item))
			if at < 0 {
				r.found = append(r.found, &found{id: id, epoch: epoch, writes: writes})
				continue
			}
			for i := range writes {
				if r.found[at].writes[i].Value == nil {
					r.found[at].writes[i].Value = writes[i].Value
				}
			}
		case mailAsk:
			for ; len(item) > 0; item = item[3:] {
				r.found[at].votes = append(r.found[at].votes, recovery.Vote{Shard: proto.ShardID(le.Uint16(item)), Node: n,
					Seen: recovery.Seen(item[2])})
			}
		}
	}
}

// decide decides about what is known.
func (v *view) decide() {
	rule := recovery.Rule{AbortComplete: v.c.lacks(completeAborted)}
	for _, x := range v.recovery.found {
		if x.decision = rule.Decide(x.shards(), v.placed().Lost(), x.votes); x.decision == recovery.Commit {
			v.count.Committed++
		} else {
			v.count.Aborted++
		}
	}
}

// sayFound is all that is known of each transaction.
func (v *view) sayFound() (says []byte) {
	for _, x := range v.recovery.found {
		x.body = recovery.BeginBody(nil, x.epoch, len(x.writes))
		for i := range x.writes {
			x.body = recovery.AppendWrite(x.body, &x.writes[i])
		}
		says = appendItem(says, x.id, x.body)
	}
	return says
}

func (v *view) sayCommitted() (says []byte) {
	for _, x := range v.recovery.found {
		if x.decision == recovery.Commit {
			says = appendItem(says, x.id, nil)
		}
	}
	return says
}

func (v *view) sayDecisions() (says []byte) {
	for _, x := range v.recovery.found {
		says = appendItem(says, x.id, []byte{byte(x.decision)})
	}
	return says
}

// record takes down what was decided.
func (v *view) record() {
	r := v.c.first.Recorder
	if r == nil {
		return
	}
	for _, x := range v.recovery.found {
		note := r.Begin(history.Ever)
		note.SetName(uint64(nameOf(x.id)))
		outcome := history.Revoked
		if x.decision == recovery.Commit {
			outcome = history.Recovered
		}
		for i := range x.writes {
			w := &x.writes[i]
			table, key, version := history.Table(w.Table), history.Key(w.Key), history.Version(w.Version)
			switch {
			case outcome == history.Revoked || w.Version.Live() && w.Value == nil:
			case w.Version.Live():
				note.Write(table, key, version, history.DigestOf(w.Value))
			default:
				note.Delete(table, key, version)
			}
		}
		r.End(note, history.Never, outcome)
	}
}

// forgetUsers ends the uses of entries by transactions of nodes that are gone.
func (v *view) forgetUsers() {
	v.c.held = slices.DeleteFunc(v.c.held, func(h held) bool { return !v.lives[h.node] })
	for _, b := range v.c.banks {
		if b == nil {
			continue
		}
		var places []int
		for place, nodes := range b.users {
			if slices.ContainsFunc(nodes, func(n proto.NodeID) bool { return !v.lives[n] }) {
				places = append(places, place)
			}
		}
		slices.Sort(places)
		for _, place := range places {
			for _, n := range slices.Clone(b.users[place]) {
				if !v.lives[n] {
					b.drop(place, n)
				}
			}
		}
	}
}

// appendItem appends an item: ID, length, bytes.
func appendItem(b []byte, id hardware.ID, item []byte) []byte {
	b = le.AppendUint16(b, uint16(id.Node))
	b = le.AppendUint16(b, uint16(id.TX))
	b = le.AppendUint32(b, id.Attempt)
	return append(le.AppendUint32(b, uint32(len(item))), item...)
}

func takeItem(b []byte) (id hardware.ID, item, rest []byte) {
	const head = 12
	id = hardware.ID{Node: hardware.NodeID(le.Uint16(b)), TX: directory.TX(le.Uint16(b[2:])), Attempt: le.Uint32(b[4:])}
	n := int(le.Uint32(b[8:]))
	return id, b[head : head+n], b[head+n:]
}
