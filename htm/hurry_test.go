package htm

import "testing"

// TestHurriedRegionsAreComparedAtTheirCommit, and when they are asked: loads of different moments come between.
func TestHurriedRegionsAreComparedAtTheirCommit(t *testing.T) {
	for _, x := range []struct {
		name string
		end  func(r *Region, m *Memory) bool
	}{
		{"commit", func(r *Region, _ *Memory) bool { return r.Commit(nil) }},
		{"asked", func(r *Region, _ *Memory) bool { return r.Consistent() }},
		{"a word outside of memory", func(r *Region, m *Memory) bool {
			_, ok := r.Load64(m, len(m.Bytes))
			return ok
		}},
		{"a word that is not aligned", func(r *Region, m *Memory) bool { return r.Store64(m, 3, 1) }},
		{"bytes outside of memory", func(r *Region, m *Memory) bool {
			return r.Store(m, len(m.Bytes)-1, make([]byte, 2)) || r.Load(m, -1, make([]byte, 1)) ||
				r.Update(m, -64, make([]byte, 8))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(8, 2)
			m, other := b.memories[0], b.memories[1]
			r := NewRegion(Config{})
			r.Begin()
			r.Load64(m, 0)
			r.Hurry()
			write(other, 0, 1)
			write(other, 64, 1)
			if v, ok := r.Load64(m, 64); !ok || v != 1 || !r.Validate() {
				t.Fatalf("a load after Hurry was compared: %d, %t", v, ok)
			}
			r.Store64(m, 128, 7)
			if x.end(r, m) {
				t.Fatal("loads of two moments were taken for one")
			}
			if c, _ := r.Aborted(); c != Conflict {
				t.Errorf("the region aborted for %v, want a conflict", c)
			}
			if v := m.Bytes[128]; v != 0 {
				t.Errorf("an aborted region has stored %d", v)
			}
			r.Begin()
			if r.Load64(m, 0); !r.Validate() {
				t.Fatal("the next region was aborted")
			}
			write(other, 0, 2)
			if _, ok := r.Load64(m, 64); ok {
				t.Error("the next region hurries, too")
			}
		})
	}
}

// TestConsistentViewsDoNotLeaveMemory: that is a bug, in a hurry too.
func TestConsistentViewsDoNotLeaveMemory(t *testing.T) {
	m := newBed(8, 1).memories[0]
	r := NewRegion(Config{})
	r.Begin()
	r.Load64(m, 0)
	r.Hurry()
	defer func() {
		if recover() == nil {
			t.Error("an access outside of memory went unnoticed")
		}
	}()
	r.Load64(m, len(m.Bytes))
}

// TestGatheredLoadsAreComparedTogether, at their end, and those after it one by one.
func TestGatheredLoadsAreComparedTogether(t *testing.T) {
	for _, x := range []struct {
		name    string
		between int // of the loads that are gathered; of others it is after them
		want    bool
	}{{"nothing comes between", -1, true}, {"a line changes before the end", 1, false}, {"one changes after it", 2, true}} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(8, 2)
			m, other := b.memories[0], b.memories[1]
			r := NewRegion(Config{})
			r.Begin()
			r.Gather()
			for i := range 2 {
				if i == x.between {
					write(other, 0, 1)
				}
				if _, ok := r.Load64(m, 64*i); !ok {
					t.Fatal("a gathered load was compared")
				}
			}
			if ok := r.Gathered(); ok != x.want {
				t.Fatalf("gathered: %t", ok)
			}
			if !x.want {
				return
			}
			if x.between == 2 {
				write(other, 0, 1)
			}
			if _, ok := r.Load64(m, 128); ok != (x.between < 0) {
				t.Errorf("a load after the end: %t", ok)
			}
		})
	}
}
