package rtxtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is what a Call does to its key.
type Kind uint8

// Kinds of calls. Get looks the key up, Insert adds it, Put changes its value, Delete removes it.
const (
	Get Kind = iota + 1
	Insert
	Put
	Delete
)

func (k Kind) String() string { return [...]string{"?", "get", "insert", "put", "delete"}[k] }

// Call is an operation on one key. All values that are written are different, so that a value says who wrote it.
type Call struct {
	Kind  Kind
	Key   uint64
	Value uint64 // Insert, Put
}

// Answer is what a Call gave: Done says whether the key was there, or for Insert whether it was not; Value is that of Get.
type Answer struct {
	Done  bool
	Value uint64
}

// Calls collects operations of clients on single keys with what they gave, without versions in the records. It may be
// used by several threads.
type Calls struct {
	lock  sync.Mutex
	clock int64
	all   []porcupine.Operation
}

// Do runs a call of a client and takes it down.
func (c *Calls) Do(client int, call Call, run func() (Answer, error)) error {
	begun := c.tick()
	answer, err := run()
	if err != nil {
		return fmt.Errorf("%v of key %d: %w", call.Kind, call.Key, err)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.clock++
	c.all = append(c.all, porcupine.Operation{ClientId: client, Input: call, Call: begun, Output: answer, Return: c.clock})
	return nil
}

func (c *Calls) tick() int64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.clock++
	return c.clock
}

// keyState is a key as the model has it.
type keyState struct {
	there bool
	value uint64
}

// linearModel is a map, key by key.
var linearModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		index := map[uint64]int{}
		for _, o := range history {
			key := o.Input.(Call).Key
			i, ok := index[key]
			if !ok {
				i = len(parts)
				index[key], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return keyState{} },
	Step: func(state, input, output any) (bool, any) {
		s, call, answer := state.(keyState), input.(Call), output.(Answer)
		switch call.Kind {
		case Get:
			return answer.Done == s.there && (!s.there || answer.Value == s.value), s
		case Insert:
			if s.there {
				return !answer.Done, s
			}
			return answer.Done, keyState{true, call.Value}
		case Put:
			if !s.there {
				return !answer.Done, s
			}
			return answer.Done, keyState{true, call.Value}
		}
		return answer.Done == s.there, keyState{}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// linearTimeout bounds a check.
const linearTimeout = time.Minute

// Linearizable says whether each key is linearizable: porcupine.Ok, Illegal, or Unknown if that takes too long.
func (c *Calls) Linearizable() porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(linearModel, c.all, linearTimeout)
}

// Len is how many calls were taken down.
func (c *Calls) Len() int { return len(c.all) }
