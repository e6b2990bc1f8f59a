package txctx_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/txctx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// specs: table 1 has values that fit into an entry, table 2 has larger ones.
var specs = []proto.TableSpec{{ID: 1, ValueBytes: 8}, {ID: 2, ValueBytes: 2 * txctx.Width}}

// record names a record.
type record struct {
	t proto.TableID
	k proto.Key
}

// store is a proto.Txn on a map, which counts what it is asked.
type store struct {
	proto.Txn
	records map[record][]byte
	calls   int   // of ReadMany
	reads   int   // records in them
	err     error // of the next call
}

func (s *store) ReadMany(gets []proto.Get) error {
	s.calls++
	s.reads += len(gets)
	for i := range gets {
		g := &gets[i]
		v, ok := s.records[record{g.Table, g.Key}]
		if g.Err = nil; !ok {
			g.Err = proto.ErrNotFound
		}
		copy(g.Value, v)
	}
	return s.err
}

func (s *store) Write(t proto.TableID, k proto.Key, v []byte) error {
	if _, ok := s.records[record{t, k}]; !ok {
		return proto.ErrNotFound
	}
	s.records[record{t, k}] = bytes.Clone(v)
	return s.err
}

func (s *store) Insert(t proto.TableID, k proto.Key, v []byte) error {
	if _, ok := s.records[record{t, k}]; ok {
		return proto.ErrExists
	}
	s.records[record{t, k}] = bytes.Clone(v)
	return s.err
}

func (s *store) Delete(t proto.TableID, k proto.Key) error {
	if _, ok := s.records[record{t, k}]; !ok {
		return proto.ErrNotFound
	}
	delete(s.records, record{t, k})
	return s.err
}

func value(t proto.TableID, v byte) []byte { return bytes.Repeat([]byte{v}, specs[t-1].ValueBytes) }

func begun(s *store) *txctx.Ctx {
	c := txctx.New(specs)
	c.Init(s)
	return c
}

// TestGetsWaitForAPollAndShareOneRead (Dandelion §3): nothing is read before the first Poll, which reads all that waits;
// a Get of the same record is the same entry.
func TestGetsWaitForAPollAndShareOneRead(t *testing.T) {
	s := &store{records: map[record][]byte{{1, 1}: value(1, 7), {2, 3}: value(2, 9)}}
	c := begun(s)
	a, _ := c.Get(1, 1)
	b, _ := c.Get(1, 2)
	d, _ := c.Get(2, 3)
	if again, _ := c.Get(1, 2); again != b {
		t.Error("a second Get of a record has an entry of its own")
	}
	if s.calls != 0 || a.State() != txctx.NotYetDone || a.Value() != nil {
		t.Fatalf("%d reads before a Poll, state %v", s.calls, a.State())
	}
	if err := c.Poll(a); err != nil {
		t.Fatal(err)
	}
	if s.calls != 1 || s.reads != 3 {
		t.Errorf("%d reads of %d records, want one of 3", s.calls, s.reads)
	}
	if !bytes.Equal(a.Value(), value(1, 7)) || b.State() != txctx.KeyNotFound || !bytes.Equal(d.Value(), value(2, 9)) {
		t.Errorf("%x, %v, %x", a.Value(), b.State(), d.Value())
	}
	if err := errors.Join(c.PollAll(), c.Poll(d)); err != nil || s.calls != 1 {
		t.Errorf("what is done is read again: %d, %v", s.calls, err)
	}
}

// TestAPutFusesWithTheEntryThatWasRead (§3): it overwrites the value there, and a Get sees it.
func TestAPutFusesWithTheEntryThatWasRead(t *testing.T) {
	s := &store{records: map[record][]byte{{1, 1}: value(1, 7)}}
	c := begun(s)
	e, _ := c.Get(1, 1)
	if err := c.Put(1, 1, value(1, 8)); err != nil || s.calls != 1 { // the Get is polled before
		t.Fatal(err, s.calls)
	}
	if e.Op() != txctx.OpGetPut || !bytes.Equal(e.Value(), value(1, 8)) {
		t.Errorf("%v, %x", e.Op(), e.Value())
	}
	if x, _ := c.Get(1, 1); x != e {
		t.Error("a Get after the Put is another entry")
	}
	if s.records[record{1, 1}][0] != 7 {
		t.Error("the Put takes effect before the commit")
	}
	if err := c.Flush(); err != nil || s.records[record{1, 1}][0] != 8 {
		t.Errorf("%v, %x", err, s.records)
	}
	if e.Op().String() != "get+put" || e.State().String() != "success" {
		t.Error(e.Op(), e.State())
	}
}

// TestTheCacheGrowsBothWays: beyond Height entries, and Width bytes.
func TestTheCacheGrowsBothWays(t *testing.T) {
	s := &store{records: map[record][]byte{}}
	c := begun(s)
	const n = 3 * txctx.Height
	for k := range proto.Key(n) {
		if err := c.Insert(2, k, value(2, byte(k))); err != nil {
			t.Fatal(err)
		}
	}
	for k := range proto.Key(n) {
		if e, _ := c.Get(2, k); e.Op() != txctx.OpInsert || !bytes.Equal(e.Value(), value(2, byte(k))) {
			t.Fatalf("key %d: %v, %x", k, e.Op(), e.Value())
		}
	}
	if err := c.Flush(); err != nil || len(s.records) != n || s.calls != 1 {
		t.Errorf("%v, %d records with %d reads", err, len(s.records), s.calls)
	}
}

// TestRefusals: what cannot be done is refused in words.
func TestRefusals(t *testing.T) {
	s := &store{records: map[record][]byte{{1, 1}: value(1, 7)}}
	for name, x := range map[string]struct {
		do   func(c *txctx.Ctx) error
		want error
	}{
		"an unknown table":                  {func(c *txctx.Ctx) error { _, err := c.Get(3, 1); return err }, proto.ErrUnknownTable},
		"a put to an unknown table":         {func(c *txctx.Ctx) error { return c.Put(0, 1, nil) }, proto.ErrUnknownTable},
		"a value of another size":           {func(c *txctx.Ctx) error { return c.Put(1, 1, make([]byte, 9)) }, proto.ErrValueSize},
		"no value":                          {func(c *txctx.Ctx) error { return c.Put(1, 1, nil) }, proto.ErrValueSize},
		"an insertion without a value":      {func(c *txctx.Ctx) error { return c.Insert(1, 2, nil) }, proto.ErrValueSize},
		"a put to a record that is absent":  {after(2, func(c *txctx.Ctx) error { return c.Put(1, 2, value(1, 1)) }), proto.ErrNotFound},
		"an insertion of one that is there": {after(1, func(c *txctx.Ctx) error { return c.Insert(1, 1, value(1, 1)) }), proto.ErrExists},
		"a deletion of one that is absent":  {after(2, func(c *txctx.Ctx) error { return c.Delete(1, 2) }), proto.ErrNotFound},
		"a blind put to one that is absent": {flushed(func(c *txctx.Ctx) error { return c.Put(1, 2, value(1, 1)) }), proto.ErrNotFound},
		"a blind insertion of one":          {flushed(func(c *txctx.Ctx) error { return c.Insert(1, 1, value(1, 1)) }), proto.ErrExists},
		"an insertion and deletion of one":  {flushed(func(c *txctx.Ctx) error { return errors.Join(c.Insert(1, 1, value(1, 1)), c.Delete(1, 1)) }), proto.ErrExists},
		"a blind deletion of one not there": {flushed(func(c *txctx.Ctx) error { return c.Delete(1, 2) }), proto.ErrNotFound},
		"a put to one that it has deleted":  {func(c *txctx.Ctx) error { return errors.Join(c.Delete(1, 1), c.Put(1, 1, value(1, 1))) }, proto.ErrNotFound},
		"a second insertion":                {func(c *txctx.Ctx) error { return errors.Join(c.Insert(1, 2, value(1, 1)), c.Insert(1, 2, value(1, 1))) }, proto.ErrExists},
		"a deletion of one that it deletes": {func(c *txctx.Ctx) error { return errors.Join(c.Delete(1, 1), c.Delete(1, 1)) }, proto.ErrNotFound},
	} {
		if err := x.do(begun(s)); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
}

// after does something after a Get of a record.
func after(k proto.Key, do func(c *txctx.Ctx) error) func(c *txctx.Ctx) error {
	return func(c *txctx.Ctx) error {
		if _, err := c.Get(1, k); err != nil {
			return err
		}
		return do(c)
	}
}

func flushed(do func(c *txctx.Ctx) error) func(c *txctx.Ctx) error {
	return func(c *txctx.Ctx) error {
		if err := do(c); err != nil {
			return err
		}
		return c.Flush()
	}
}

// TestAnAbortComesThrough.
func TestAnAbortComesThrough(t *testing.T) {
	s := &store{err: proto.Aborting(proto.ReasonLocked)}
	c := begun(s)
	e, _ := c.Get(1, 1)
	if err := c.Poll(e); proto.AbortReason(err) != proto.ReasonLocked || e.State() != txctx.NotYetDone {
		t.Errorf("%v, %v", err, e.State())
	}
}

// TestACtxIsAMap runs random operations on a context and on a map, polled now and then, with equal answers, and equal
// records after the flush.
func TestACtxIsAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	s := &store{records: map[record][]byte{}}
	c := txctx.New(specs)
	for round := range 3000 {
		want := maps.Clone(s.records)
		c.Init(s)
		failed := false // a blind change that cannot be: the flush must say so
		for range random.IntN(12) {
			r := record{proto.TableID(random.IntN(2) + 1), proto.Key(random.IntN(6))}
			v := value(r.t, byte(random.IntN(256)))
			_, there := want[r]
			switch op := random.IntN(5); op {
			case 0, 1:
				e, err := c.Get(r.t, r.k)
				if err == nil && op == 0 {
					err = c.Poll(e)
				}
				if err != nil {
					t.Fatal(err)
				}
				if e.State() != txctx.NotYetDone && !failed && ((e.State() == txctx.Success) != there || !bytes.Equal(e.Value(), want[r])) {
					t.Fatalf("round %d, %v: %v %x, want %x", round, r, e.State(), e.Value(), want[r])
				}
			case 2:
				err := c.Put(r.t, r.k, v)
				failed = failed || err == nil && !there
				if err == nil {
					want[r] = v
				}
			case 3:
				err := c.Insert(r.t, r.k, v)
				failed = failed || err == nil && there
				if err == nil {
					want[r] = v
				}
			case 4:
				err := c.Delete(r.t, r.k)
				failed = failed || err == nil && !there
				if err == nil {
					delete(want, r)
				}
			}
			if failed {
				break
			}
		}
		before := maps.Clone(s.records)
		err := c.Flush()
		if (err != nil) != failed {
			t.Fatalf("round %d: %v, though something could not be: %v", round, err, failed)
		}
		if failed {
			s.records = before // the transaction aborts
			continue
		}
		if !maps.EqualFunc(s.records, want, bytes.Equal) {
			t.Fatalf("round %d: %x, want %x", round, s.records, want)
		}
	}
}

// TestTransactionsAllocateNothing.
func TestTransactionsAllocateNothing(t *testing.T) {
	s := &store{records: map[record][]byte{{1, 1}: value(1, 7), {2, 2}: value(2, 7)}}
	c := txctx.New(specs)
	v := value(1, 9)
	if n := testing.AllocsPerRun(100, func() {
		c.Init(s)
		for k := range proto.Key(2 * txctx.Height) {
			if _, err := c.Get(2, k); err != nil {
				t.Error(err)
			}
		}
		e, _ := c.Get(1, 1)
		if err := errors.Join(c.PollAll(), c.Poll(e), c.Put(1, 1, v)); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
