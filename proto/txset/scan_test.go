package txset

import (
	"slices"
	"testing"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// even is a protocol with a table whose keys are the even numbers below 100.
type even struct{ s *Set[struct{}] }

func (e even) Load(from, to int) error {
	for i := from; i < to; i++ {
		r := &e.s.Records[i]
		r.Accept(1, r.Key%2 == 0)
	}
	return nil
}

func (e even) Keys(_ proto.TableID, _ proto.Location, from, to proto.Key, keys []proto.Key) (n int, err error) {
	for k := from; k <= to && k < 100 && n < len(keys); k++ {
		if k%2 == 0 {
			keys[n] = k
			n++
		}
	}
	return n, nil
}

type here struct{}

func (here) Locate(proto.TableID, proto.Key) proto.Location { return proto.Location{} }

// TestAScanAddsNoRecordTwice, whatever of its range the set has before it, or gets from the program meanwhile.
func TestAScanAddsNoRecordTwice(t *testing.T) {
	var want []proto.Key
	for k := proto.Key(0); k < 100; k += 2 {
		want = append(want, k)
	}
	for _, x := range []struct {
		name         string
		before, then []proto.Key // read before the scan, and when it shows key 10
	}{
		{name: "nothing"}, {name: "another key before", before: []proto.Key{200}},
		{name: "keys of the range before", before: []proto.Key{4, 50, 98}},
		{name: "keys of the range meanwhile", then: []proto.Key{8, 12, 60}},
		{name: "both", before: []proto.Key{60}, then: []proto.Key{61, 98}},
	} {
		t.Run(x.name, func(t *testing.T) {
			record := layout.NewRecord(layout.KindOneVersion, 8)
			c := &Config{Specs: []proto.TableSpec{{ID: 1, Name: "even", ValueBytes: 8, Ordered: true}},
				Records: []layout.Record{record}, Placement: here{}, Nodes: 1}
			var b Buffers
			b.Init(nil, c.Records)
			var s Set[struct{}]
			s.Init(c, &b, even{&s})
			s.Open(&fiber.Fiber{}, &proto.Decl{})
			value := make([]byte, 8)
			read := func(keys []proto.Key) {
				for _, k := range keys {
					if err := s.Read(1, k, value); err != nil && err != proto.ErrNotFound {
						t.Fatal(err)
					}
				}
			}
			read(x.before)
			var shown []proto.Key
			err := s.Scan(1, 0, 199, func(k proto.Key, _ []byte) bool {
				if shown = append(shown, k); k == 10 {
					read(x.then)
				}
				return true
			})
			if err != nil || !slices.Equal(shown, want) {
				t.Errorf("%v, %v", shown, err)
			}
			seen := map[proto.Key]bool{}
			for i := range s.Records {
				if k := s.Records[i].Key; seen[k] {
					t.Errorf("key %d is in the set twice", k)
				} else {
					seen[k] = true
				}
			}
		})
	}
}

// many is a protocol with a table of more entries than a set may have, some of them of deleted records.
type many struct {
	s       *Set[struct{}]
	deleted proto.Key // the first ones
}

func (m many) Load(from, to int) error {
	for i := from; i < to; i++ {
		r := &m.s.Records[i]
		r.Accept(1, r.Key >= m.deleted)
	}
	return nil
}

func (m many) Keys(_ proto.TableID, _ proto.Location, from, _ proto.Key, keys []proto.Key) (n int, err error) {
	for i := range keys {
		keys[i] = from + proto.Key(i)
	}
	return len(keys), nil
}

// TestAScanThatDeletedRecordsMakeTooLongIsTriedAgain: their entries are about to be given back. One of too many records is
// refused.
func TestAScanThatDeletedRecordsMakeTooLongIsTriedAgain(t *testing.T) {
	record := layout.NewRecord(layout.KindOneVersion, 8)
	c := &Config{Specs: []proto.TableSpec{{ID: 1, Name: "many", ValueBytes: 8, Ordered: true}},
		Records: []layout.Record{record}, Placement: here{}, Nodes: 1}
	for _, x := range []struct {
		deleted, low proto.Key
		want         error
	}{
		{0, 0, ErrTooManyRecords}, {10, 0, proto.Aborting(proto.ReasonConflict)}, {10, 10, ErrTooManyRecords},
	} {
		var b Buffers
		b.Init(nil, c.Records)
		var s Set[struct{}]
		s.Init(c, &b, many{&s, x.deleted})
		s.Open(&fiber.Fiber{}, &proto.Decl{})
		err := s.Scan(1, x.low, 10*MaxRecords, func(proto.Key, []byte) bool { return true })
		if err != x.want {
			t.Errorf("%d deleted records, from key %d: %v, want %v", x.deleted, x.low, err, x.want)
		}
	}
}
