package dlht

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"drtmd/store"
)

// TestTableIsAMap runs random operations, single and in batches, on tables that begin with 8 bins and grow, against
// a map. Keys are few, or spread over all words.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, err := New(Config{Seed: rapid.Uint64().Draw(t, "seed")})
		if err != nil {
			t.Fatal(err)
		}
		m := map[uint64]uint64{}
		keys := rapid.SampledFrom([]uint64{10, 200, 1 << 63}).Draw(t, "keys")
		key := func(t *rapid.T) uint64 { return rapid.Uint64Range(0, keys).Draw(t, "key") }
		t.Repeat(map[string]func(*rapid.T){
			"batch": func(t *rapid.T) {
				var requests, want []Request
				for range rapid.IntRange(0, 40).Draw(t, "requests") {
					r := Request{Op: rapid.SampledFrom([]Op{OpGet, OpInsert, OpInsert, OpPut, OpDelete}).Draw(t, "op"),
						Key: key(t), Value: rapid.Uint64().Draw(t, "value")}
					requests = append(requests, r)
					want = append(want, byMap(m, r))
				}
				if rapid.Bool().Draw(t, "at once") {
					table.Batch(requests)
				} else {
					for i := range requests {
						requests[i] = one(table, requests[i])
					}
				}
				for i, r := range requests {
					r.hash = 0
					if r != want[i] {
						t.Fatalf("request %d: %+v, want %+v", i, r, want[i])
					}
				}
			},
			"": func(t *rapid.T) {
				if got := maps.Collect(table.All()); !maps.Equal(got, m) {
					t.Fatalf("the records are %v, want %v", got, m)
				}
				if o := table.Occupancy(); o.Records != len(m) && !o.Growing {
					t.Fatalf("%+v with %d records", o, len(m))
				}
				k := key(t)
				want, found := m[k]
				if v, ok := table.Get(k); ok != found || v != want {
					t.Fatalf("key %d has %d, %v; want %d, %v", k, v, ok, want, found)
				}
			},
		})
	})
}

// one executes a request by itself.
func one(table *Table, r Request) Request {
	switch r.Op {
	case OpGet:
		r.Value, r.Done = table.Get(r.Key)
	case OpInsert:
		present, done, err := table.Insert(r.Key, r.Value)
		if !done {
			r.Value = present
		}
		r.Done, r.Err = done, err
	case OpPut:
		r.Value, r.Done, r.Err = table.Put(r.Key, r.Value)
	case OpDelete:
		r.Value, r.Done = table.Delete(r.Key)
	}
	return r
}

func byMap(m map[uint64]uint64, r Request) Request {
	old, found := m[r.Key]
	switch r.Op {
	case OpGet:
		r.Value, r.Done = old, found
	case OpInsert:
		if found {
			r.Value = old
		} else {
			m[r.Key] = r.Value
		}
		r.Done = !found
	case OpPut:
		if found {
			m[r.Key] = r.Value
		}
		r.Value, r.Done = old, found
	case OpDelete:
		delete(m, r.Key)
		r.Value, r.Done = old, found
	}
	return r
}

// TestKeysMayHaveSeveralValues is the model test of a table with Duplicates.
func TestKeysMayHaveSeveralValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, err := New(Config{Duplicates: true})
		if err != nil {
			t.Fatal(err)
		}
		m := map[uint64][]uint64{}
		draw := func(t *rapid.T) (key, value uint64) {
			return rapid.Uint64Range(0, 20).Draw(t, "key"), rapid.Uint64Range(0, 3).Draw(t, "value")
		}
		drop := func(t *rapid.T, key, value uint64) {
			i := slices.Index(m[key], value)
			if i < 0 {
				t.Fatalf("key %d lost value %d, it had %d", key, value, m[key])
			}
			m[key] = slices.Delete(m[key], i, i+1)
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				key, value := draw(t)
				_, ok, err := table.Insert(key, value)
				if ok {
					m[key] = append(m[key], value)
				}
				if ok == (err != nil) || err != nil && !errors.Is(err, ErrCrowded) || !ok && len(m[key]) < 2 {
					t.Fatalf("%v, %v with values %d", ok, err, m[key])
				}
			},
			"put": func(t *rapid.T) {
				key, value := draw(t)
				old, ok, err := table.Put(key, value)
				if err == nil && ok != (len(m[key]) > 0) {
					t.Fatal(key, ok, m[key])
				}
				if ok {
					drop(t, key, old)
					m[key] = append(m[key], value)
				}
			},
			"delete": func(t *rapid.T) {
				key, _ := draw(t)
				if old, ok := table.Delete(key); ok {
					drop(t, key, old)
				} else if len(m[key]) > 0 {
					t.Fatal("not found: ", key)
				}
			},
			"delete value": func(t *rapid.T) {
				key, value := draw(t)
				if ok := table.DeleteValue(key, value); ok != slices.Contains(m[key], value) {
					t.Fatal(key, value, ok, m[key])
				} else if ok {
					drop(t, key, value)
				}
			},
			"": func(t *rapid.T) {
				key, _ := draw(t)
				got, want := table.Values(key, nil), slices.Sorted(slices.Values(m[key]))
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Fatalf("key %d has %d, want %d", key, got, want)
				}
			},
		})
	})
}

// TestMapIsAMap is the model test of keys and values of any size.
func TestMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, err := NewMap(MapConfig{MaxBlockBytes: rapid.SampledFrom([]int64{0, 0, chunkWords * 8}).Draw(t, "bound")})
		if err != nil {
			t.Fatal(err)
		}
		x, err := table.Thread()
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		bytesOf := func(t *rapid.T, label string, sizes ...int) string {
			size := rapid.SampledFrom(sizes).Draw(t, label+" size")
			b := make([]byte, size)
			for i := range b {
				b[i] = byte(rapid.IntRange(0, 1).Draw(t, label))
			}
			return string(b)
		}
		key := func(t *rapid.T) string { return bytesOf(t, "key", 0, 1, 2, 7, 8, 9, 10, 17) }
		value := func(t *rapid.T) string {
			v := bytesOf(t, "value", 0, 1, 6, 7, 8, 9, 20)
			if rapid.IntRange(0, 20).Draw(t, "large") == 0 {
				v += string(make([]byte, 40_000))
			}
			return v
		}
		refused := func(t *rapid.T, err error) bool {
			if err != nil && !errors.Is(err, store.ErrFull) {
				t.Fatal(err)
			}
			return err != nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				k, v := key(t), value(t)
				_, found := m[k]
				if ok, err := x.Insert([]byte(k), []byte(v)); refused(t, err) {
				} else if ok == found {
					t.Fatalf("inserted %q: %v", k, ok)
				} else if ok {
					m[k] = v
				}
			},
			"put": func(t *rapid.T) {
				k, v := key(t), value(t)
				_, found := m[k]
				if ok, err := x.Put([]byte(k), []byte(v)); refused(t, err) {
				} else if ok != found {
					t.Fatalf("put %q: %v", k, ok)
				} else if ok {
					m[k] = v
				}
			},
			"delete": func(t *rapid.T) {
				k := key(t)
				if _, found := m[k]; x.Delete([]byte(k)) != found {
					t.Fatalf("deleted %q: %v", k, !found)
				}
				delete(m, k)
			},
			"": func(t *rapid.T) {
				k := key(t)
				got, ok := x.Get([]byte(k), []byte("to "))
				if v, found := m[k]; ok != found || string(got) != "to "+v {
					t.Fatalf("%q has %q, %v; want %q, %v", k, got, ok, v, found)
				}
				all := map[string]string{}
				for k, v := range x.All() {
					all[string(k)] = string(v)
				}
				if !maps.Equal(all, m) {
					t.Fatalf("the records are %q, want %q", all, m)
				}
			},
		})
		if most := table.blocks.most; most > 0 && table.BlockBytes() > most {
			t.Fatal("too many bytes of blocks: ", table.BlockBytes())
		}
	})
}
