package recovery

import (
	"fmt"
	"strings"

	"drtmd/proto"
)

// The model is one transaction of one coordinator, replicas, and a second writer that stands for all other
// transactions. explore visits every state that can be reached: every order of messages and their answers,
// every loss, every death up to f, at every point, recovery included.

const (
	mostNodes  = 4
	mostShards = 2
)

// setup is a case of the model, and the bugs that it has.
type setup struct {
	nodes, replicas int
	coordinator     int
	written         []proto.ShardID
	values          bool // locks bring values
	rule            Rule

	backupsOnly      bool // the coordinator's own record counts though it dies with it
	toldLast         bool // the client is told after COMMIT, with backupsOnly
	toldEarly        bool // one acknowledgement of LOG is not awaited
	truncateFirst    bool // TRUNCATE before COMMIT
	unlockFirst      bool // an abort gives locks back before the records are dropped
	serveUnlocked    bool // a promoted backup serves before it has the locks
	incomplete       bool // recovery commits before every replica has a record
	keepNames        bool // recovery unlocks while a promoted backup knows what it was
	dropAtOnce       bool // recovery drops each record when it is applied, before all have applied it
	unfenced         bool // messages of the dead arrive after the view has changed
	unlockAllAtAbort bool // recovery unlocks before records are dropped
	unlockUnseen     bool // a primary does not tell that it has given the lock back
	madeUnseen       bool // nobody tells that it has committed for recovery
}

func (x *setup) String() string {
	return fmt.Sprintf("%d nodes, %d replicas, coordinator %d writes %v, locks with values %t", x.nodes,
		x.replicas, x.coordinator, x.written, x.values)
}

// phase of the coordinator.
type phase uint8

const (
	phaseLock phase = iota
	phaseValidate
	phaseLog
	phaseCommit
	phaseTruncate
	phaseDrop
	phaseUnlock
	phaseDone
)

func (p phase) String() string {
	return [...]string{"LOCK", "VALIDATE", "LOG", "COMMIT", "TRUNCATE", "DROP", "UNLOCK", "end"}[p]
}

// stage of recovery.
type stage uint8

const (
	stageNone   stage = iota
	stagePaused       // the view has changed
	stageLocked       // promoted backups have their locks
	// What the coordinator would do.
	stageLog      // of a commit
	stageCommit   //
	stageTruncate //
	stageDrop     // of an abort
	stageUnlock   //
)

// Values of a record's replica: who wrote it, and so its version.
const (
	base     = iota // version 0
	ours            // version 1, of the transaction
	overBase        // version 1, of another
	overOurs        // version 2, of another that has deleted the record
	deleted         // the same at the primary, which knows nothing of the record any more
)

func versionOf(v uint8) int {
	return [...]int{base: 0, ours: 1, overBase: 1, overOurs: 2, deleted: 0}[v]
}

// Locks of a shard's primary.
const (
	free     = iota
	held     // since LOCK
	restored // by recovery, which knows from records what the transaction writes
	bare     // restored, and forgotten what for
)

func (s stage) String() string {
	return [...]string{"", "", "", "LOG", "COMMIT", "TRUNCATE", "DROP", "UNLOCK"}[s]
}

// replica of a written shard.
type replica struct {
	value  uint8
	record bool
}

// set of nodes.
type set uint8

func (s set) has(n int) bool { return s>>n&1 != 0 }
func bit(n int) set          { return 1 << n }

// state of the model; comparable.
type state struct {
	alive, view set
	phase       phase
	got, acked  set // of this phase's messages
	at          [mostShards][mostNodes]replica
	primary     [mostShards]int8 // -1: lost
	lock        [mostShards]uint8
	serves      [mostShards]bool
	told        Decision // what the client was told; 0: nothing
	final       Decision // what somebody has seen of it
	stage       stage
	own         Decision // of a coordinator that lives through a change of the view
	decided     Decision
	done        set // nodes, in a stage
	made        set // nodes that have committed or truncated for recovery
	err         string
}

func (x *setup) start() state {
	all := set(1<<x.nodes - 1)
	s := state{alive: all, view: all}
	for i := range s.primary {
		s.primary[i] = -1
	}
	for i, w := range x.written {
		s.primary[i], s.serves[i] = int8(w), true
	}
	return s
}

func (x *setup) f() int { return x.replicas - 1 }

// member reports whether a node had a replica of a written shard at the beginning.
func (x *setup) member(i, n int) bool {
	return (n-int(x.written[i])+x.nodes)%x.nodes < x.replicas
}

// location is that of a written shard in the present view.
func (x *setup) location(s *state, i int) (l proto.Location) {
	l.Primary, l.Replicas = proto.NodeID(s.primary[i]), new(proto.Replicas)
	for n := range x.nodes {
		if x.member(i, n) && s.view.has(n) && n != int(s.primary[i]) {
			l.Replicas.Backups = append(l.Replicas.Backups, proto.NodeID(n))
		}
	}
	return l
}

// holds reports whether a node has to hold a record of a written shard.
func (x *setup) holds(s *state, i, n int) bool {
	l := x.location(s, i)
	holders := Holders(nil, l, proto.NodeID(x.coordinator))
	if x.backupsOnly {
		holders = l.Backups()
	}
	for _, h := range holders {
		if int(h) == n {
			return true
		}
	}
	return false
}

// targets are the nodes that the phase's messages go to.
func (x *setup) targets(s *state) (t set) {
	for i := range x.written {
		for n := range x.nodes {
			switch s.phase {
			case phaseLock, phaseCommit, phaseUnlock:
				if int(s.primary[i]) == n {
					t |= bit(n)
				}
			case phaseLog, phaseTruncate, phaseDrop:
				if x.holds(s, i, n) {
					t |= bit(n)
				}
			}
		}
	}
	return t
}

// settle notes what somebody has seen: it must not be contradicted later.
func (s *state) settle(d Decision, what string) {
	if s.final != 0 && s.final != d && s.err == "" {
		s.err = fmt.Sprintf("%s: %v, and it was %v before", what, d, s.final)
	}
	s.final = d
}

// tell tells the client.
func (s *state) tell(d Decision) {
	s.told = d
	s.settle(d, "the client is told")
}

// arrive is a message of the present phase at a node.
func (x *setup) arrive(s *state, n int) {
	s.got |= bit(n)
	for i := range x.written {
		primary := int(s.primary[i]) == n
		r := &s.at[i][n]
		switch s.phase {
		case phaseLock:
			if primary && s.lock[i] == free {
				s.lock[i] = held
			}
		case phaseLog:
			r.record = r.record || x.holds(s, i, n)
		case phaseCommit:
			if primary {
				s.apply(i, n)
				s.lock[i] = free
				s.settle(Commit, "a primary commits")
			}
		case phaseTruncate:
			if x.holds(s, i, n) {
				s.apply(i, n)
				r.record = false
			}
		case phaseDrop:
			r.record = false
		case phaseUnlock:
			if primary {
				s.lock[i] = free
				s.settle(Abort, "a primary unlocks")
			}
		}
	}
}

// apply writes the update at a replica, if it is newer. A primary that has unlocked the record writes nothing.
func (s *state) apply(i, n int) {
	if r := &s.at[i][n]; versionOf(r.value) < versionOf(ours) && r.value != deleted {
		r.value = ours
	}
}

// next ends a phase whose messages are all acknowledged.
func (x *setup) next(s *state, to phase) {
	s.phase, s.got, s.acked = to, 0, 0
	if to == phaseDone {
		return
	}
}

// move is a state that may follow, and by what.
type move struct {
	label string
	to    state
}

// moves are all that may follow.
func (x *setup) moves(s *state) (all []move) {
	add := func(label string, f func(*state)) {
		t := *s
		f(&t)
		if t != *s {
			all = append(all, move{label, t})
		}
	}
	dead := x.nodes
	for n := range x.nodes {
		if s.alive.has(n) {
			dead--
		}
	}
	for n := range x.nodes {
		if s.alive.has(n) && dead < x.f() {
			add(fmt.Sprintf("node %d dies", n), func(t *state) { t.alive &^= bit(n) })
		}
	}
	x.others(s, add)
	if s.alive != s.view {
		add("the view changes", x.change)
	}
	if s.stage == stageNone || x.unfenced && !s.alive.has(x.coordinator) {
		x.messages(s, add)
	}
	if s.stage == stageNone {
		if s.alive.has(x.coordinator) {
			x.coordinate(s, add)
		}
		return all
	}
	x.recover(s, add)
	return all
}

// others are writes of other transactions, which take place at once at all replicas.
func (x *setup) others(s *state, add func(string, func(*state))) {
	for i := range x.written {
		p := int(s.primary[i])
		// What is written before LOCK has the transaction abort, and is not interesting.
		if p < 0 || !s.serves[i] || s.lock[i] != free || s.stage == stageNone && s.phase == phaseLock {
			continue
		}
		whole := true
		for n := range x.nodes {
			whole = whole && (!x.member(i, n) || !s.view.has(n) || s.alive.has(n))
		}
		v := s.at[i][p].value
		if !whole || !s.alive.has(p) || v > ours {
			continue
		}
		add(fmt.Sprintf("another writes to shard %d, or deletes there what was written", x.written[i]), func(t *state) {
			to, d := uint8(overBase), Abort
			if v == ours {
				to, d = overOurs, Commit
			}
			t.settle(d, "another transaction reads")
			for n := range x.nodes {
				if x.member(i, n) && t.view.has(n) && versionOf(t.at[i][n].value) < versionOf(to) {
					t.at[i][n].value = to
				}
			}
			if v == ours {
				t.at[i][p].value = deleted
			}
		})
	}
}

// messages arrive and are answered. Those of a coordinator that has died may still be under way.
func (x *setup) messages(s *state, add func(string, func(*state))) {
	targets := x.targets(s)
	c := s.alive.has(x.coordinator)
	for n := range x.nodes {
		switch {
		case !targets.has(n):
		case !s.got.has(n) && s.alive.has(n):
			add(fmt.Sprintf("%v arrives at node %d", s.phase, n), func(t *state) { x.arrive(t, n) })
		case s.got.has(n) && !s.acked.has(n) && c && s.stage == stageNone:
			add(fmt.Sprintf("%v is acknowledged by node %d", s.phase, n), func(t *state) { t.acked |= bit(n) })
		}
	}
}

// coordinate is what the coordinator does by itself.
func (x *setup) coordinate(s *state, add func(string, func(*state))) {
	goOn := func(to phase, f func(*state)) {
		add("the coordinator begins "+to.String(), func(t *state) {
			x.next(t, to)
			if f != nil {
				f(t)
			}
		})
	}
	all := s.acked == x.targets(s)
	switch s.phase {
	case phaseLock:
		if all {
			goOn(phaseValidate, nil)
		}
	case phaseValidate:
		goOn(phaseLog, nil)
		goOn(phaseUnlock, nil)
	case phaseLog:
		missing := x.targets(s) &^ s.acked
		switch {
		case all || x.toldEarly && missing&(missing-1) == 0:
			to := phaseCommit
			if x.truncateFirst {
				to = phaseTruncate
			}
			goOn(to, func(t *state) {
				if !x.toldLast {
					t.tell(Commit)
				}
			})
		case x.unlockFirst:
			goOn(phaseUnlock, nil)
		default:
			goOn(phaseDrop, nil)
		}
	case phaseCommit:
		if all && x.truncateFirst {
			goOn(phaseDone, nil)
		} else if all {
			goOn(phaseTruncate, func(t *state) {
				if x.toldLast {
					t.tell(Commit)
				}
			})
		}
	case phaseTruncate:
		if all && x.truncateFirst {
			goOn(phaseCommit, nil)
		} else if all {
			goOn(phaseDone, nil)
		}
	case phaseDrop:
		if all && x.unlockFirst {
			goOn(phaseDone, nil)
		} else if all {
			goOn(phaseUnlock, func(t *state) { t.tell(Abort) })
		}
	case phaseUnlock:
		if all && x.unlockFirst {
			goOn(phaseDrop, nil)
		} else if all {
			goOn(phaseDone, nil)
		}
	}
}

// change makes a view of those that live.
func (x *setup) change(s *state) {
	before := *s
	s.view = s.alive
	touched := false
	for i := range x.written {
		p := int(s.primary[i])
		if p < 0 || s.alive.has(p) {
			continue
		}
		touched = true
		s.primary[i], s.lock[i], s.serves[i] = -1, free, false
		for k := range x.replicas {
			if n := (int(x.written[i]) + k) % x.nodes; s.alive.has(n) {
				s.primary[i] = int8(n)
				break
			}
		}
	}
	if s.stage == stageNone && s.alive.has(x.coordinator) {
		s.own = x.ownDecision(&before)
		if s.phase == phaseValidate && !touched {
			return // it goes on, in the new view
		}
	}
	if !x.unfenced {
		s.phase, s.got, s.acked = phaseDone, 0, 0
	}
	s.stage, s.decided, s.done = stagePaused, 0, 0
}

// ownDecision is that of a coordinator that lives: its requests to nodes that live have ended.
func (x *setup) ownDecision(s *state) Decision {
	switch s.phase {
	case phaseLog:
		if x.targets(s)&s.alive&^s.got != 0 {
			return Abort
		}
		return Commit
	case phaseCommit, phaseTruncate:
		return Commit
	case phaseDone:
		return s.own // nothing is left to decide
	}
	return Abort
}

// recover does the next steps of recovery.
func (x *setup) recover(s *state, add func(string, func(*state))) {
	if s.alive != s.view {
		return // somebody does not answer, until the view changes
	}
	switch s.stage {
	case stagePaused:
		add("promoted backups lock what records name, and serve", func(t *state) {
			t.stage = stageLocked
			known := x.known(t)
			for i := range x.written {
				if t.primary[i] < 0 || t.serves[i] {
					continue
				}
				t.serves[i] = true
				if known && !x.serveUnlocked {
					t.lock[i] = restored
				}
			}
		})
	case stageLocked:
		add("it is decided", func(t *state) { x.decide(t) })
	default:
		if s.done == s.view {
			add("all have done that", func(t *state) { x.nextStage(t) })
		}
		for n := range x.nodes {
			if s.view.has(n) && !s.done.has(n) {
				add(fmt.Sprintf("%v of recovery at node %d", s.stage, n), func(t *state) { x.carryOut(t, n) })
			}
		}
	}
}

// known reports whether anybody knows what the transaction writes: from a record, or from the locks that a
// promoted backup took for one.
func (x *setup) known(s *state) bool {
	for i := range x.written {
		if s.lock[i] == restored && s.alive.has(int(s.primary[i])) {
			return true
		}
		for n := range x.nodes {
			if s.alive.has(n) && s.at[i][n].record {
				return true
			}
		}
	}
	return false
}

// decide takes the decision: the coordinator's own if it lives, else by votes.
func (x *setup) decide(s *state) {
	if s.alive.has(x.coordinator) {
		s.decided = s.own
		if s.decided == Commit && s.told == 0 {
			s.tell(Commit)
		}
	} else {
		var lost []proto.ShardID
		var votes []Vote
		for i, w := range x.written {
			if s.primary[i] < 0 {
				lost = append(lost, w)
				continue
			}
			votes = append(votes, x.votes(s, i)...)
		}
		s.decided = x.rule.Decide(x.written, lost, votes)
	}
	s.stage, s.done = stageDrop, 0
	switch {
	case s.decided == Commit:
		x.needValues(s)
		s.stage = stageLog
		if x.incomplete {
			s.stage = stageCommit
		}
	case x.unlockAllAtAbort:
		s.stage = stageUnlock
	}
}

// nextStage goes on when all nodes have done one.
func (x *setup) nextStage(s *state) {
	s.done = 0
	switch {
	case s.stage == stageLog, s.stage == stageCommit, s.stage == stageDrop && !x.unlockAllAtAbort:
		s.stage++
	case s.stage == stageUnlock && x.unlockAllAtAbort:
		s.stage = stageDrop
	default:
		s.stage, s.phase, s.made = stageNone, phaseDone, 0
	}
	if s.stage == stageUnlock && s.alive.has(x.coordinator) && s.told == 0 {
		s.tell(Abort)
	}
}

func (x *setup) votes(s *state, i int) (votes []Vote) {
	for n := range x.nodes {
		if !s.alive.has(n) || !x.member(i, n) {
			continue
		}
		v := Vote{Shard: x.written[i], Node: proto.NodeID(n)}
		r := &s.at[i][n]
		if r.record {
			v.Seen |= SeenRecord
		}
		// Nobody asks without a record.
		made := s.made.has(n) && !x.madeUnseen
		if (versionOf(r.value) >= versionOf(ours) || x.unlocked(s, i, n) || made) && x.known(s) {
			v.Seen |= SeenApplied
		}
		if x.values && int(s.primary[i]) == n && s.lock[i] == held {
			v.Seen |= SeenLock
		}
		votes = append(votes, v)
	}
	return votes
}

// unlocked reports whether a node is the primary of a written shard since the beginning, and has given the lock back.
func (x *setup) unlocked(s *state, i, n int) bool {
	return n == int(x.written[i]) && int(s.primary[i]) == n && s.lock[i] == free && !x.unlockUnseen
}

// needValues: whoever carries out a commit has the values of every shard that is not lost.
func (x *setup) needValues(s *state) {
	if s.alive.has(x.coordinator) {
		return
	}
	for i := range x.written {
		there := s.primary[i] < 0 || s.at[i][s.primary[i]].value == deleted // nobody needs it any more
		for _, v := range x.votes(s, i) {
			there = there || v.Seen != 0
		}
		if !there && s.err == "" {
			s.err = fmt.Sprintf("nobody has the values for shard %d", x.written[i])
		}
	}
}

// carryOut is a node's part of a stage.
func (x *setup) carryOut(s *state, n int) {
	s.done |= bit(n)
	if s.stage == stageCommit || s.stage == stageTruncate {
		s.made |= bit(n)
	}
	for i := range x.written {
		r := &s.at[i][n]
		primary, member := int(s.primary[i]) == n, x.member(i, n) && s.primary[i] >= 0
		switch s.stage {
		case stageLog:
			r.record = r.record || member
		case stageCommit, stageTruncate:
			if member && primary == (s.stage == stageCommit) {
				s.apply(i, n)
			}
			if s.stage == stageTruncate || x.dropAtOnce {
				r.record = false
			}
		case stageDrop:
			r.record = false
			if primary && s.lock[i] == restored && !x.keepNames {
				s.lock[i] = bare
			}
		}
		if primary && (s.stage == stageCommit || s.stage == stageUnlock) {
			if s.lock[i] != free {
				s.settle(s.decided, "recovery unlocks")
			}
			s.lock[i] = free
		}
	}
}

// ended reports whether nothing is left to do, and then what is wrong.
func (x *setup) ended(s *state) (bool, string) {
	if s.phase != phaseDone || s.stage != stageNone || s.alive != s.view {
		return false, ""
	}
	took := map[bool]bool{}
	for i, w := range x.written {
		if s.primary[i] < 0 {
			continue
		}
		if s.lock[i] != free {
			return true, fmt.Sprintf("shard %d stays locked", w)
		}
		first := s.at[i][s.primary[i]].value
		for n := range x.nodes {
			if !s.alive.has(n) || !x.member(i, n) {
				continue
			}
			if s.at[i][n].record {
				return true, fmt.Sprintf("a record for shard %d stays at node %d", w, n)
			}
			if v := s.at[i][n].value; v != first && !(first == deleted && v == overOurs) {
				return true, fmt.Sprintf("the replicas of shard %d differ", w)
			}
		}
		took[first == ours || first == overOurs || first == deleted] = true
	}
	switch {
	case len(took) > 1:
		return true, "one shard has the update, the other has not"
	case s.final != 0 && took[s.final == Abort]:
		return true, fmt.Sprintf("the replicas do not have what %v left", s.final)
	}
	return true, ""
}

// explored is what explore has seen.
type explored struct {
	states, ends int
	wrong        string   // what is wrong; "": nothing
	story        []string // the shortest way to it
}

// explore visits every state, breadth first.
func (x *setup) explore() (r explored) {
	type origin struct {
		from  state
		label string
	}
	first := x.start()
	seen := map[state]origin{first: {}}
	for queue := []state{first}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		r.states++
		end, wrong := x.ended(&s)
		if end {
			r.ends++
		}
		next := x.moves(&s)
		stuck := !end
		for i := range next {
			stuck = stuck && strings.HasSuffix(next[i].label, "dies")
		}
		switch {
		case s.err != "":
			wrong = s.err
		case wrong == "" && stuck:
			wrong = "it comes to no end"
		}
		if wrong != "" {
			r.wrong = wrong
			for s != first {
				o := seen[s]
				r.story = append([]string{o.label}, r.story...)
				s = o.from
			}
			return r
		}
		for _, m := range next {
			if _, ok := seen[m.to]; !ok {
				seen[m.to] = origin{s, m.label}
				queue = append(queue, m.to)
			}
		}
	}
	return r
}
