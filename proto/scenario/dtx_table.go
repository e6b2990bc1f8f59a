package scenario

import (
	"errors"
	"time"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/race"
	"drtmd/verbs/fiber"
)

// dtxKeys are as many as fill several subtables of 105 slots, a few of which are in use all the time.
const dtxKeys = 600

// listed is a mutation, if it is in a list; "" else.
func listed(list []mutation.Mutation, name string) string {
	for _, m := range list {
		if m.Name == name {
			return name
		}
	}
	return ""
}

// open makes the client's way to the hash table; false if that failed for now.
func (k *dtxClient) open(f *fiber.Fiber) (bool, error) {
	if k.table != nil {
		k.rehashes += k.table.Stats().Rehashes
	}
	table, err := race.OpenDistributed(f, k.c, race.Config{Records: 0, Tables: 1, Versions: true,
		Mutation: listed(race.Mutations(), k.e.Mutation)})
	if k.table = table; err == nil {
		return true, nil
	}
	return false, k.failed(f, err)
}

// failed reports an error that is none of the transport and no Abort.
func (k *dtxClient) failed(f *fiber.Fiber, err error) error {
	if errors.Is(err, rtx.ErrCorrupt) || errors.Is(err, rtx.ErrUsage) || errors.Is(err, race.ErrFormat) {
		k.e.Fail(checkMemory, "owner %d: %v", k.owner, err)
	}
	return f.Err()
}

// oneOfTable runs an operation on the hash table; false says that the client is of no use any more.
func (k *dtxClient) oneOfTable(f *fiber.Fiber) (bool, error) {
	key := uint64(k.rand.IntN(dtxKeys))
	if k.rand.IntN(3) == 0 {
		key %= 8
	}
	kind := k.rand.IntN(10)
	k.next++
	t := k.recorder.Begin(trueTime{k.e.World}.Now().Nanoseconds())
	ok, err := k.outcome(f, t, k.operate(f, t, kind, key, k.next))
	if k.torn {
		k.e.Fail(checkTorn, "owner %d has found a value of key %d that nobody has written", k.owner, key)
	}
	return ok && k.c.Broken() == nil, err
}

// auditTable looks at the structure of the hash table, and at all keys.
func (k *dtxClient) auditTable(f *fiber.Fiber) error {
	c, err := k.table.Check(f)
	if err != nil {
		k.e.Fail(checkHash, "%v", err)
		return nil
	}
	k.e.Count("objects", uint64(len(c.Objects)))
	k.e.Count("records", uint64(len(c.Records)))
	for key := range uint64(dtxKeys) {
		t := k.recorder.Begin(trueTime{k.e.World}.Now().Nanoseconds())
		for {
			t.Reset()
			_, err := k.seek(f, t, key)
			if err == nil {
				break
			}
			if proto.AbortReason(err) == 0 {
				k.e.Fail(checkHash, "the auditor cannot look key %d up: %v", key, err)
				return f.Err()
			}
			if err := f.Sleep(time.Microsecond); err != nil {
				return err
			}
		}
		k.recorder.End(t, trueTime{k.e.World}.Now().Nanoseconds(), history.Committed)
	}
	k.audited = true
	return nil
}
