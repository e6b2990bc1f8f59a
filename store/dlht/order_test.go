package dlht

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// order runs threads one at a time and lets a random one go on before each look at shared memory.
type order struct {
	random *rand.Rand
	wake   []chan struct{}
	live   []int
	now    int
	steps  int
	on     bool
}

// run runs functions as threads, until all have returned.
func (o *order) run(threads ...func()) {
	var all sync.WaitGroup
	o.wake, o.live = make([]chan struct{}, len(threads)), nil
	for i, f := range threads {
		o.wake[i] = make(chan struct{}, 1)
		o.live = append(o.live, i)
		all.Go(func() {
			<-o.wake[i]
			f()
			o.live = slices.DeleteFunc(o.live, func(j int) bool { return j == i })
			if len(o.live) > 0 {
				o.pass()
			}
		})
	}
	o.on = true
	o.pass()
	all.Wait()
	o.on = false
}

// pass lets some thread go on.
func (o *order) pass() {
	o.now = o.live[o.random.IntN(len(o.live))]
	o.wake[o.now] <- struct{}{}
}

func (o *order) step() {
	if !o.on {
		return
	}
	o.steps++
	if me := o.now; o.random.IntN(3) == 0 {
		o.pass()
		<-o.wake[me]
	}
}

// wordModel is a key of a Table: its value, if it has one.
var wordModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		keys := map[uint64][]porcupine.Operation{}
		for _, o := range all {
			k := o.Input.(Request).Key
			keys[k] = append(keys[k], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range keys {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return wordState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(wordState), input.(Request), output.(Request)
		m := map[uint64]uint64{}
		if s.found {
			m[in.Key] = s.value
		}
		want := byMap(m, in)
		v, found := m[in.Key]
		return want.Value == out.Value && want.Done == out.Done, wordState{v, found}
	},
}

type wordState struct {
	value uint64
	found bool
}

// orderedRun has three threads use few keys of one bin, while the table grows or not, in an order that a seed
// decides. It returns what is wrong with what they saw, and the number of steps.
func orderedRun(mutation Mutation, seed uint64) (wrong string, steps int) {
	o := &order{random: rand.New(rand.NewPCG(seed, 1))}
	table, err := New(Config{Mutation: mutation, step: o.step})
	if err != nil {
		return err.Error(), 0
	}
	// Keys of one bin of 8, which twice as many bins tell apart, or not.
	var keys []uint64
	for k := uint64(0); len(keys) < 24; k++ {
		if table.hash(k)&7 == 5 {
			keys = append(keys, k)
		}
	}
	var history []porcupine.Operation
	clock := int64(0)
	do := func(thread int, requests ...Request) {
		inputs := slices.Clone(requests)
		clock++
		call := clock
		if len(requests) == 1 {
			requests[0] = one(table, requests[0])
		} else {
			table.Batch(requests)
		}
		clock++
		for i, r := range requests {
			if r.Err != nil {
				wrong = r.Err.Error()
			}
			history = append(history, porcupine.Operation{ClientId: thread, Input: inputs[i], Call: call, Output: r,
				Return: clock})
		}
	}
	value := uint64(0)
	for _, k := range keys[:o.random.IntN(16)] {
		value++
		do(0, Request{Op: OpInsert, Key: k, Value: value})
	}
	few := 1 + o.random.IntN(4)
	thread := func(id int) func() {
		return func() {
			for range 5 {
				var requests []Request
				for range 1 + o.random.IntN(4)/3 {
					key := keys[o.random.IntN(few)]
					if o.random.IntN(4) == 0 {
						key = keys[o.random.IntN(len(keys))]
					}
					value++
					requests = append(requests, Request{Op: Op(1 + o.random.IntN(4)), Key: key, Value: value})
				}
				do(id, requests...)
			}
		}
	}
	o.run(thread(1), thread(2), thread(3))
	if wrong != "" {
		return wrong, o.steps
	}
	records := map[uint64]uint64{}
	for k, v := range table.All() {
		if _, twice := records[k]; twice {
			return fmt.Sprintf("key %d has two records", k), o.steps
		}
		records[k] = v
	}
	for _, k := range keys {
		do(0, Request{Op: OpGet, Key: k})
		if v, found := table.Get(k); v != records[k] || found != (records[k] != 0) {
			return fmt.Sprintf("key %d has %d, %v, and All gives %d", k, v, found, records[k]), o.steps
		}
	}
	if r := porcupine.CheckOperationsTimeout(wordModel, history, 10*time.Second); r != porcupine.Ok {
		return fmt.Sprintf("no order explains what the threads saw: %v", r), o.steps
	}
	return "", o.steps
}

// mapRun has three threads put and get values in blocks. Each value consists of its key's last character.
func mapRun(mutation Mutation, seed uint64) (wrong string, steps int) {
	o := &order{random: rand.New(rand.NewPCG(seed, 2))}
	m, err := NewMap(MapConfig{Config: Config{Mutation: mutation, step: o.step}, MaxBlockBytes: chunkWords * 8})
	if err != nil {
		return err.Error(), 0
	}
	check := func(what string, err error) {
		if err != nil {
			wrong = what + ": " + err.Error()
		}
	}
	thread := func() {
		x, err := m.Thread()
		if err != nil {
			wrong = err.Error()
			return
		}
		for range 8 {
			name := byte('a' + o.random.IntN(3))
			key, value := "a key of many bytes "+string(name), slices.Repeat([]byte{name}, 8+o.random.IntN(20))
			switch o.random.IntN(4) {
			case 0:
				_, err := x.Insert([]byte(key), value)
				check("insert", err)
			case 1:
				_, err := x.Put([]byte(key), value)
				check("put", err)
			case 2:
				x.Delete([]byte(key))
			default:
				v, found := x.Get([]byte(key), nil)
				if found && !slices.Equal(slices.Compact(slices.Clone(v)), []byte{name}) {
					wrong = fmt.Sprintf("%q has %q, which nobody put", key, v)
				}
			}
		}
		x.Close()
	}
	o.run(thread, thread, thread)
	return wrong, o.steps
}

// TestThreadsInEveryOrderSeeOneTable runs threads in orders that seeds decide, for each of the mutations and without.
// What the threads of the correct table see is linearizable; each mutation is found.
func TestThreadsInEveryOrderSeeOneTable(t *testing.T) {
	const most = 3000
	honest := 400
	if raceEnabled || testing.Short() {
		honest = 20
	}
	for _, m := range append([]Mutation{0}, Mutations().All()...) {
		run := orderedRun
		if m == FreedValueRead {
			run = mapRun
		}
		t.Run(m.String(), func(t *testing.T) {
			if m == 0 {
				steps := 0
				for seed := range uint64(honest) {
					for _, run := range []func(Mutation, uint64) (string, int){orderedRun, mapRun} {
						wrong, n := run(0, seed)
						if wrong != "" {
							t.Fatalf("seed %d: %s", seed, wrong)
						}
						steps += n
					}
				}
				t.Logf("%d seeds, %d steps", honest, steps)
				return
			}
			if raceEnabled {
				t.Skip("the race detector would find the bugs, not the checks")
			}
			for seed := range uint64(most) {
				if wrong, _ := run(m, seed); wrong != "" {
					t.Logf("seed %d: %s", seed, wrong)
					return
				}
			}
			t.Errorf("not found by %d seeds", most)
		})
	}
}
