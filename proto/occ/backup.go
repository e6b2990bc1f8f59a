package occ

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/recovery"
	"drtmd/store/log"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// The coordinator's side of logs: where its records go, which of them are decided, and what their hosts know
// of that. The hosts' side is in apply.go.

// Types of records in logs.
const (
	// recordUpdate is a transaction's update: from when it is there on survivors may commit it.
	recordUpdate log.Type = 1
	// recordVoid stands in the place of an update that did not arrive, and was decided without it.
	recordVoid log.Type = 2
)

// The body of a record: the position before which everything in the log is decided, 8 bytes, and of an update
// what package recovery says.
const decidedBytes = 8

// flushAfter is how long nothing was logged at a host until it is told what is decided in a message of its
// own; otherwise the next record tells it.
const flushAfter = 200 * time.Microsecond

// backups are the logs of a worker at the other nodes.
type backups struct {
	e     *Engine
	at    []*backup // by node; nil: none
	names uint32
	timer *fiber.Timer
	// turn is held from a transaction's name to the posting of its last record: in each log the names rise.
	turn    bool
	waiting fiber.Cond
	// unfinished are transactions whose records did not reach all holders, owing those whose update a primary
	// has not confirmed.
	unfinished []*tx
	owing      []owing
	finishing  bool // records are sent again, to one host at a time: a transaction has one batch
}

// backup is the log at one node.
type backup struct {
	node   proto.NodeID
	writer *log.Writer
	// flights are the records from decided on, in order; the first has the number base.
	flights []flight
	base    uint64
	decided uint64 // everything before is
	told    uint64 // the host was told that everything before is decided
	last    time.Duration
	asking  bool // the host is being told, by task
	task    *fiber.Task
	request [wordBytes]byte // of task
	answer  [headBytes]byte
	// stuck: a record did not get there, so nothing behind it would be found; or the host did not answer.
	stuck bool
	moved fiber.Cond // another record has arrived, or will not
	// gone: the host is dead. Its next life has another log, of another generation.
	gone       bool
	generation uint64
}

// flight is a record that was appended.
type flight struct {
	end     uint64 // of the record
	t       *tx
	arrived bool
	decided bool
}

// errTooLarge is a transaction whose log record does not fit.
var errTooLarge = errors.New("the transaction's log record does not fit: split the transaction, or make log-bytes larger")

// errLong is a transaction whose log record is longer than a message, where backups apply it at once.
var errLong = fmt.Errorf("the transaction's log record is longer than the %d bytes of a message, which backups with "+
	"undo logs apply at once: split the transaction", messageBytes)

// newBackups makes the logs; nil if there are none.
func (e *Engine) newBackups() error {
	if e.Env.Logs == nil {
		return nil
	}
	if len(e.Env.Peers) > recovery.MaxNodes || e.Env.Index >= recovery.MaxWorkers {
		return fmt.Errorf("%w: with replicas there are at most %d nodes of %d workers", errConfig,
			recovery.MaxNodes, recovery.MaxWorkers)
	}
	if e.strategy.Undo && e.Env.Index >= undoWorkers {
		return fmt.Errorf("%w: with undo logs there are at most %d workers of a node", errConfig, undoWorkers)
	}
	b := &backups{e: e, at: make([]*backup, len(e.Env.Peers))}
	b.timer = e.Env.Worker.NewTimer(b.flush)
	e.backups = b
	return nil
}

// errNotMet is the abort of a transaction that has to log at a node which was not reached yet.
var errNotMet = &proto.Abort{Reason: proto.ReasonUnreachable,
	Cause: errors.New("a backup of what the transaction writes was not reached yet")}

// to is the log at a node.
func (b *backups) to(n proto.NodeID) (*backup, error) {
	if x := b.at[n]; x == nil || x.gone && x.generation != b.e.Env.Peers[n].Log.Writer.Generation {
		if b.e.Env.Peers[n].Log.Writer.Capacity == 0 {
			return nil, errNotMet
		}
		c := b.e.Env.Peers[n].Log.Writer
		c.Unreserved = b.e.lacks(roomUnreserved)
		w, err := log.NewWriter(c)
		if err != nil {
			return nil, err
		}
		w.SetEpoch(log.Epoch(b.e.view.epoch))
		x := &backup{node: n, writer: w, decided: w.Head(),
			generation: b.e.Env.Peers[n].Log.Writer.Generation}
		if w.Tail() > w.Head() {
			x.flights = append(x.flights, flight{end: w.Tail(), arrived: true}) // of a former life: recovery's
		}
		b.at[n] = x
	}
	return b.at[n], nil
}

// Untruncated implements proto.Truncator: the records that hosts have not been told to be decided.
func (e *Engine) Untruncated() (n int) {
	if e.backups == nil {
		return 0
	}
	for _, x := range e.backups.at {
		if x == nil || x.gone {
			continue
		}
		if n += len(x.flights); x.behind() {
			n++
		}
	}
	return n
}

// behind reports whether the host is not known to have applied all that is decided.
func (x *backup) behind() bool { return x.writer.Head() < x.decided }

// pressing reports whether the host should be told at once what is decided: somebody waits for room, or half of
// the log could be free.
func (x *backup) pressing() bool {
	return x.decided > x.told && !x.stuck &&
		(x.writer.Awaited() || x.decided-x.writer.Head() >= uint64(x.writer.Capacity()/2))
}

// decide notes that a record is decided.
func (x *backup) decide(number uint64) {
	if x.gone || number < x.base {
		return
	}
	x.flights[number-x.base].decided = true
	n := 0
	for n < len(x.flights) && x.flights[n].decided {
		x.decided = x.flights[n].end
		n++
	}
	x.base += uint64(n)
	x.flights = slices.Delete(x.flights, 0, n)
}

// enter waits for the turn to append.
func (b *backups) enter(f *fiber.Fiber) error {
	for b.turn {
		if err := b.waiting.Wait(f, 0); err != nil {
			return err
		}
	}
	b.turn = true
	return nil
}

func (b *backups) leave() {
	b.turn = false
	b.waiting.Broadcast()
}

// arm has hosts be told later what is decided.
func (b *backups) arm() { b.timer.Set(b.e.Env.Worker.Now() + flushAfter) }

// flush tells hosts what is decided, those that have got no record for a while.
func (b *backups) flush() {
	now, again := b.e.Env.Worker.Now(), false
	for _, x := range b.at {
		switch {
		case x == nil || x.gone || !x.behind() || x.asking || x.stuck:
		case now-x.last < flushAfter:
			again = true
		default:
			b.tell(x)
		}
	}
	if again {
		b.arm()
	}
}

// tell has a fiber tell a host what is decided.
func (b *backups) tell(x *backup) {
	if x.asking {
		return
	}
	x.asking = true
	if x.task != nil {
		b.e.Env.Worker.Restart(x.task)
		return
	}
	x.task = b.e.Env.Worker.Go("occ truncate", nil, func(f *fiber.Fiber) error {
		for again := true; again; again = x.pressing() {
			b.e.truncateAt(f, x)
		}
		x.asking = false
		if x.behind() && !x.stuck {
			b.arm()
		}
		return nil
	})
}

// plan finds who has to hold a record of the transaction, and how large the records are. It reports whether
// there is any holder.
func (t *tx) plan() (any bool) {
	clear(t.bodies)
	writes, was := 0, 0
	for i := range t.Records {
		r := &t.Records[i]
		if !t.logsRecord(r) {
			continue
		}
		if writes++; t.e.locksInLog() {
			was += recovery.WasBytes
		}
		if r.Node == t.e.Env.Node && t.e.lacks(localUnlogged) {
			continue
		}
		t.holders = recovery.Holders(t.holders[:0], r.At, t.e.Env.Node)
		if t.e.strategy.LogsPrimary && !t.e.lacks(primaryUnlogged) {
			t.holders = append(t.holders, r.Node)
		}
		for _, n := range t.holders {
			if n != t.e.Env.Node {
				t.bodies[n], any = -1, true
			}
		}
	}
	for n, mark := range t.bodies {
		if mark == 0 {
			continue
		}
		bytes := decidedBytes + recovery.BodyBytes(writes) + was
		for i := range t.Records {
			if r := &t.Records[i]; r.Changes() && r.Is && replicaAt(r.At, proto.NodeID(n)) {
				bytes += recovery.ValueRoom(len(r.Value))
			}
		}
		t.bodies[n] = bytes
	}
	return any
}

// replicaAt reports whether a node has a replica.
func replicaAt(l proto.Location, n proto.NodeID) bool {
	return l.Primary == n || slices.Contains(l.Backups(), n)
}

// reserve makes room in all logs that the transaction will use, in the order of nodes. It waits while a log is
// full.
func (t *tx) reserve() error {
	b := t.e.backups
	if b == nil || !t.changes() || !t.plan() {
		return nil
	}
	clear(t.at)
	t.reserved = !t.e.lacks(roomKept) // what was made before an error is given back, too
	for n, bytes := range t.bodies {
		if bytes == 0 {
			continue
		}
		x, err := b.to(proto.NodeID(n))
		if err != nil {
			return err
		}
		if x.stuck {
			return t.cutOff(x)
		}
		t.at[n] = x
		if by := t.e.messengers[t.e.strategy.by(proto.PhaseLog)]; t.e.strategy.Undo && x.writer.Span(bytes) > by.longest() {
			return errLong
		}
		ok, err := x.writer.TryReserve(&t.rooms[n], bytes, decidedBytes)
		if err == nil && !ok {
			b.tell(x) // the answer says what room there is
			err = t.waitForRoom(x, bytes)
		}
		if err != nil {
			if errors.Is(err, log.ErrTooLong) {
				err = fmt.Errorf("%w: %w", errTooLarge, err)
			}
			return err
		}
	}
	t.reserved = true
	return nil
}

// roomLook is how long a transaction waits for room until it looks whether the host is out of reach.
const roomLook = time.Millisecond

// waitForRoom waits until a log that is full has room.
func (t *tx) waitForRoom(x *backup, bytes int) error {
	for {
		err := x.writer.Reserve(t.F, &t.rooms[x.node], t.F.Now()+roomLook, bytes, decidedBytes)
		switch {
		case !errors.Is(err, fiber.ErrDeadline):
			return err
		case x.stuck:
			return t.cutOff(x)
		}
		t.e.backups.tell(x)
	}
}

// unreserve gives back the room that is left.
func (t *tx) unreserve() {
	if !t.reserved {
		return
	}
	t.reserved = false
	for n, bytes := range t.bodies {
		if x := t.at[n]; bytes != 0 && x != nil {
			x.writer.Release(&t.rooms[n])
		}
	}
}

// logged is a record of the transaction in a log.
type logged struct {
	to     *backup
	number uint64 // of its flight
	place  log.Place
	body   int // bytes of its body
	at     int // of its bytes in the transaction's buffer
	ops    int // first of its WRITEs
	call   *call
}

// log is LOG: it is complete when every holder of a record has it. sent says that one may have it after an
// error: nobody knows then what survivors would decide.
func (t *tx) log() (sent bool, err error) {
	if !t.reserved {
		return false, nil
	}
	defer t.countTrips(proto.PhaseLog)
	b := t.e.backups
	for n, bytes := range t.bodies {
		if bytes != 0 && b.at[n].stuck {
			return false, t.cutOff(b.at[n])
		}
	}
	if err := t.e.view.begin(t); err != nil {
		return false, err
	}
	defer t.e.view.end()
	if !t.e.strategy.Flows {
		if err := t.makeRoom(); err != nil {
			return false, err
		}
	}
	t.F.Step(stepLog)
	if err := b.enter(t.F); err != nil {
		return false, err // the node was killed
	}
	b.names++
	t.name = recovery.MakeName(t.e.Env.Node, t.e.Env.Index, t.e.words.Life, b.names)
	if err := t.lockOwnBackups(); err != nil {
		b.leave()
		return false, err
	}
	t.inLog = true
	t.Name(uint64(t.name))
	t.NoteWrites()
	t.asked = 0
	at := 0
	t.Batch.Reset()
	for n, bytes := range t.bodies {
		if bytes != 0 {
			at += t.append(b.at[n], at)
		}
	}
	b.leave()
	t.send(proto.PhaseLog)
	if t.e.lacks(logUnawaited) {
		t.Told()
	}
	if t.e.lacks(commitBeside) {
		t.commitMeanwhile()
	}
	t.trips++
	_ = t.Batch.Await(t.F) // each has its own error
	t.await(proto.PhaseLog)
	t.fillGaps()
	for i := range t.logs {
		l := &t.logs[i]
		failed := t.arrived(l)
		if failed != nil && i == 0 && t.e.lacks(ackIgnored) {
			l.to.flights[l.number-l.to.base].arrived, failed = true, nil
		}
		if failed != nil {
			l.to.stuck = true
			err = first(err, failed)
		}
		l.to.moved.Broadcast()
	}
	for i := range t.logs {
		err = first(err, t.awaitOrder(&t.logs[i]))
	}
	t.F.Step(stepLogged)
	return true, err
}

// awaitOrder waits until every record before one is there, too: WRITEs on a new queue pair may arrive though one on
// the old one, of another transaction, has not. With a gap before it a record does not count.
func (t *tx) awaitOrder(l *logged) error {
	x := l.to
	for {
		n := int(l.number - x.base)
		if x.gone || l.number < x.base || !x.flights[n].arrived || t.e.lacks(gapAcknowledged) ||
			!slices.ContainsFunc(x.flights[:n], func(f flight) bool { return !f.arrived && !f.decided }) {
			return nil
		}
		if x.stuck {
			x.flights[n].arrived = false
			return t.cutOff(x)
		}
		if err := x.moved.Wait(t.F, 0); err != nil {
			return err
		}
	}
}

// cutOff is the abort of a transaction whose log cannot be reached.
func (t *tx) cutOff(x *backup) error {
	err := t.e.Env.Peers[x.node].Conn.Err()
	if err == nil {
		err = rpc.ErrPeerGone
	}
	return t.UnreachableAt(x.node, err)
}

// commitMeanwhile is a mutation: COMMIT while the calls of LOG are under way.
func (t *tx) commitMeanwhile() {
	calls, asked := t.calls, t.asked
	t.calls = nil
	t.release(proto.PhaseCommit)
	t.calls, t.asked = calls, asked
}

// A host that got a message before the record in front of its own says so, and is asked again.
const (
	gapTries = 64
	gapPause = 5 * time.Microsecond
	// roomTries is how often a host with an undo log is asked again, whose table is full until deletions are decided.
	roomTries = 64 * gapTries
)

// fillGaps sends messages again that came before the record in front of theirs.
func (t *tx) fillGaps() {
	tries := gapTries
	if t.e.strategy.Undo {
		tries = roomTries
	}
	for range tries {
		again := false
		for _, c := range t.calls[:t.asked] {
			if c.err == nil && c.head.code == busy {
				again = true
			}
		}
		if !again || t.F.Sleep(gapPause) != nil {
			return
		}
		for _, c := range t.calls[:t.asked] {
			if c.err == nil && c.head.code == busy {
				t.begin(proto.PhaseLog, c)
			}
		}
		t.trips++
		for _, c := range t.calls[:t.asked] {
			if c.err == nil && c.head.code == busy {
				t.answer(proto.PhaseLog, c)
			}
		}
	}
}

// arrived takes what became of a record.
func (t *tx) arrived(l *logged) error {
	if l.call == nil && l.ops == nowhere {
		return t.cutOff(l.to)
	}
	if c := l.call; c != nil {
		if c.err != nil {
			return t.UnreachableAt(l.to.node, c.err)
		}
		if c.head.code != done && !t.refusedInLog(c) {
			return errAnswer
		}
		if err := l.to.writer.Released(c.head.off); err != nil {
			return err
		}
	} else {
		n := 1
		if p := l.place.Pieces[1]; p.To > p.From {
			n = 2
		}
		for op := l.ops; op < l.ops+n; op++ {
			if err := t.Batch.Err(op); err != nil {
				return t.UnreachableAt(l.to.node, err)
			}
		}
	}
	l.to.flights[l.number-l.to.base].arrived = true
	return nil
}

// truncate ends the transaction's part in logs: its records are decided, as soon as all primaries have its
// update.
func (t *tx) truncate() {
	t.unreserve()
	if len(t.logs) == 0 {
		return
	}
	b := t.e.backups
	if (t.unconfirmed() != nil || len(t.unended) > 0) && !t.e.lacks(truncateEarly) {
		b.owing = append(b.owing, owing{t.noteOwn(), slices.Clone(t.logs), slices.Clone(t.unended), true})
	} else {
		b.decide(t.logs)
	}
	t.logs, t.inLog = t.logs[:0], false
}

// owing is a committed transaction of which a primary has not confirmed the update.
type owing struct {
	*noted
	logs []logged
	// ends are the nodes that have not confirmed how it ended (onetrip.go), and commit is how.
	ends   []proto.NodeID
	commit bool
}

// decide notes that the records of a transaction are decided.
func (b *backups) decide(logs []logged) {
	for i := range logs {
		x := logs[i].to
		if x.decide(logs[i].number); x.pressing() {
			b.tell(x)
		}
	}
	b.arm()
}

// truncateAt tells a host what is decided in its log, and learns what room that has made. Only x.task calls it.
func (e *Engine) truncateAt(f *fiber.Fiber, x *backup) {
	if e.view.await(f) != nil || x.gone {
		return
	}
	e.view.busy++
	defer e.view.end()
	session := e.Env.Peers[x.node].Session
	if session == nil {
		x.stuck = true
		return
	}
	x.told = x.decided
	le.PutUint64(x.request[:], x.told)
	f.Step(stepTruncate)
	n, err := session.Call(f, TypeTruncate, x.request[:], x.answer[:], 0)
	p := &e.Counters.Phases[proto.PhaseTruncate]
	p.Add(proto.Traffic{Requests: 1, Trips: 1, Bytes: wordBytes + uint64(n)})
	h, _, ok := takeHead(x.answer[:n], 1)
	if err != nil || !ok || h.code != done || x.writer.Released(h.off) != nil {
		x.stuck = true // until the keeper has it reached again
	}
}

// finish sends what did not get to a host's log, in order, and goes on with the transactions whose records are
// all there then. It reports whether the host is reached.
func (b *backups) finish(f *fiber.Fiber, peer proto.NodeID) {
	x, v := b.at[peer], b.e.view
	if b.finishing || v.pausing || v.recovering {
		return // what is left over when the view changes, Recover finishes
	}
	b.finishing = true
	defer func() { b.finishing = false }()
	v.busy++
	defer v.end()
	if x != nil && !x.gone && x.stuck && !b.placeAgain(f, x) {
		return
	}
	for i := 0; i < len(b.unfinished) && !v.pausing; {
		t := b.unfinished[i]
		if !t.allArrived() {
			i++
			continue
		}
		b.unfinished = slices.Delete(b.unfinished, i, i+1)
		if t.F = f; t.denied != nil {
			t.abortLogged()
		} else {
			t.carryOut()
		}
	}
	for i := 0; i < len(b.owing); {
		if !b.end(f, i, peer) || b.e.owes(uint64(b.owing[i].word)) {
			i++
		} else {
			logs := b.owing[i].logs
			b.owing = slices.Delete(b.owing, i, i+1)
			b.decide(logs)
		}
	}
	b.arm()
}

// placeAgain sends what did not get to a log, in order, and reports whether all of it is there. Of a transaction
// of an older view, which was decided without that record, something without meaning is sent.
func (b *backups) placeAgain(f *fiber.Fiber, x *backup) bool {
	for number := x.base; number < x.base+uint64(len(x.flights)); number++ {
		if number < x.base {
			continue // decided meanwhile
		}
		fl := &x.flights[number-x.base]
		if !fl.arrived && fl.t != nil && !slices.Contains(b.unfinished, fl.t) {
			return false // its transaction still waits for it
		}
		if !fl.arrived && fl.t != nil && !fl.t.placeAgain(f, x, number) || b.e.view.pausing {
			return false
		}
	}
	x.stuck = false
	return true
}

// placeAgain sends one record again, or something in its place.
func (t *tx) placeAgain(f *fiber.Fiber, x *backup, number uint64) bool {
	t.F = f
	i := slices.IndexFunc(t.logs, func(l logged) bool { return l.to == x && l.number == number })
	invariant.Assert(i >= 0, "a record in flight is not its transaction's")
	l := &t.logs[i]
	void := t.epoch < t.e.view.epoch
	if void {
		if t.e.strategy.Flows && t.makeRoom() != nil {
			return false
		}
		t.text = append(t.text[:0], make([]byte, l.body)...)
		le.PutUint64(t.text, x.decided)
		x.writer.EncodeAgain(l.place, &log.Record{Type: recordVoid, ID: uint64(t.name), Body: t.text}, t.out.Bytes()[l.at:])
	}
	t.asked = 0
	t.Batch.Reset()
	if t.e.strategy.Flows && !void {
		t.shipPacked(l)
	} else {
		t.ship(l)
	}
	t.send(proto.PhaseLog)
	_ = t.Batch.Await(f)
	t.await(proto.PhaseLog)
	return t.arrived(l) == nil
}

// allArrived reports whether all records of the transaction are where they belong.
func (t *tx) allArrived() bool {
	for i := range t.logs {
		l := &t.logs[i]
		if l.to.gone {
			continue
		}
		if n := l.number - l.to.base; l.number >= l.to.base && !l.to.flights[n].arrived {
			return false
		}
	}
	return true
}

// arrivedAlive reports whether all records of the transaction are at those holders that live.
func (t *tx) arrivedAlive() bool {
	for i := range t.logs {
		l := &t.logs[i]
		if x := l.to; !x.gone && l.number >= x.base && !x.flights[l.number-x.base].arrived {
			return false
		}
	}
	return true
}

// hostDied ends a log whose host is dead: whoever waits for room in it finds that out by itself.
func (x *backup) hostDied() {
	x.gone, x.stuck, x.flights = true, false, nil
	x.decided = x.writer.Tail()
	_ = x.writer.Released(x.writer.Tail())
}

// debts is what there is to do for the worker's logs at a node.
func (b *backups) debts(n proto.NodeID) int {
	if b == nil || b.at[n] == nil || b.at[n].gone || !b.at[n].stuck && len(b.unfinished)+len(b.owing) == 0 {
		return 0
	}
	return 1
}
