package check

import (
	"fmt"

	"drtmd/proto/history"
)

// contents is what the tables held at one moment, by key: 17 bytes each.
type contents struct {
	// known: the history has it. whole: keys without a state were absent.
	known, whole bool
	states       []history.State // 0: not named
	versions     []uint64
	digests      []uint64
	// Of replicas: the first whose content it is, and how many hold the key.
	first  []history.Replica
	copies []uint16
}

// content is what the tables held of one key; state 0: nothing.
type content struct {
	state           history.State
	version, digest uint64
}

// of gives the content of a key.
func (s *contents) of(key uint32) content {
	if int(key) >= len(s.states) {
		return content{}
	}
	return content{s.states[key], s.versions[key], s.digests[key]}
}

func (s *contents) set(key uint32, c content) {
	for int(key) >= len(s.states) {
		s.states = append(s.states, 0)
		s.versions, s.digests = append(s.versions, 0), append(s.digests, 0)
	}
	s.states[key], s.versions[key], s.digests[key] = c.state, c.version, c.digest
}

// loadContents reads what the tables held before the first transaction and after the last.
func (c *checker) loadContents() error {
	if err := c.tick(Contents, 0, 0); err != nil {
		return err
	}
	var err error
	if c.result.InitialKeys, err = c.loadContent(history.Initial, &c.initial); err != nil {
		return err
	}
	c.result.FinalKeys, err = c.loadContent(history.Final, &c.final)
	c.compareReplicas()
	return err
}

func (c *checker) loadContent(m history.Moment, s *contents) (keys *uint64, err error) {
	if s.known, s.whole = c.history.Knows(m); !s.known {
		return nil, nil
	}
	keys = new(uint64)
	return keys, c.history.EachContent(m, func(x history.Content) error {
		if x.Sharded {
			c.loadReplica(s, &x)
			return nil
		}
		if *keys++; *keys%tickEvery == 0 {
			if err := c.tick(Contents, int(*keys), int(c.history.Keys(m))); err != nil {
				return err
			}
		}
		if len(c.keys.entries) >= maxTxns {
			return ErrTooLarge
		}
		key := c.keys.number(x.Table, x.Key)
		if s.of(key).state != 0 {
			return fmt.Errorf("check: %s occurs twice in the content of the tables", c.keyName(key))
		}
		s.set(key, content{x.State, uint64(x.Version), uint64(x.Digest)})
		return nil
	})
}

// standing is what a key is after one of its writes, or before the first.
type standing struct {
	write   *op // nil: as it was in the beginning
	known   bool
	absent  bool
	version uint64 // 0: of an absence without a trace
	digest  uint64
}

// beginning is how a key stands before its first write. seen is a read of that, or nil.
func (c *checker) beginning(key uint32, seen *op) standing {
	if c.initial.known {
		i := c.initial.of(key)
		return standing{known: true, absent: i.state != history.Present, version: i.version,
			digest: i.digest}
	}
	if seen == nil {
		return standing{}
	}
	return standing{known: true, absent: seen.class() != classRead, version: seen.version,
		digest: seen.digest}
}

// after is how a key stands after a write.
func after(w *op, absent bool) standing {
	return standing{write: w, known: true, absent: absent, version: w.version, digest: w.digest}
}

// missing says which version must have been installed between a key's standing and its next write,
// by what history.Counting promises; 0 if none must. absent: that version is a delete's.
func missing(p standing, next uint64, deletes bool) (version uint64, absent bool) {
	const most = 1<<32 - 1
	before, incarnation := p.version>>32, next>>32
	switch {
	case !p.known:
		return 0, false
	case deletes && !p.absent && before == incarnation-1:
		return 0, false
	case deletes && !p.absent: // what it had was deleted before, and inserted again
		return (before + 1) << 32, true
	case deletes:
		return (incarnation - 1) << 32, false
	case uint32(next) > 0 && !p.absent && p.version == next-1:
		return 0, false
	case uint32(next) > 0:
		return next - 1, false
	case p.absent, before == incarnation-2 && uint32(p.version) == most:
		return 0, false
	}
	return (before + 1) << 32, true
}

// verifyFinal compares what the tables held of a key in the end with how it stands after the last
// write that counts; before is how it stood before that.
func (c *checker) verifyFinal(key uint32, before, last standing) {
	f := c.final.of(key)
	if f.state == 0 && !c.final.whole {
		return
	}
	if !last.known {
		// From the first version that was written on, whatever came of it, none is an initial one.
		if w := c.firstWrite(key); w != nil && f.state != 0 && f.state != history.Pending &&
			f.version >= w.version {
			c.reportFinal(WrongContent, key, f, last)
		}
		return
	}
	same := f.version == last.version
	switch f.state {
	case history.Present:
		same = same && !last.absent && f.digest == last.digest
	case history.Deleted:
		same = same && last.absent
	case history.Pending:
		// The write that is owed is the last one; or nobody saw it, and it does not count. Its value may be
		// half made before it has its version.
		same = same || last.absent || before.known && (before.absent || before.version == f.version)
	default:
		same = last.absent
	}
	if same {
		return
	}
	a := WrongContent
	if last.write != nil && (f.state == 0 || f.version < last.version) {
		a = LostWrite
	}
	c.reportFinal(a, key, f, last)
}

// firstWrite is the write of the lowest version of a key, whatever came of it; nil if there is none.
func (c *checker) firstWrite(key uint32) *op {
	ops := c.of(key)
	for i := range ops {
		if ops[i].class() < classRead {
			return &ops[i]
		}
	}
	return nil
}

// writer is the write, whatever came of it, that has left this content of a key; nil if none is known.
func (c *checker) writer(key uint32, f content) *op {
	ops := c.of(key)
	for i := range ops {
		if w := &ops[i]; w.class() < classRead && w.version == f.version && f.state != 0 {
			return w
		}
	}
	return nil
}
