package remote

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks of a protocol find it: each leaves
// out one step that a look-up rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	NoVerify Mutation = iota + 1
	CachedAbsence
	NoBounds
	TornLink
	KeepCached
	AppendAnywhere
	ReuseBuffer
	NoDirectory
	OverflowUnread
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "correct look-ups"},
	NoVerify: {Name: "remote-no-verify",
		Doc:        "an absence is believed though the chain may have changed while it was read",
		Equivalent: "a transaction that finds no entry has the host make or find one, and locks or leases that"},
	CachedAbsence: {Name: "remote-cached-absence", Doc: "an absence in the cache is believed",
		Equivalent: "as remote-no-verify"},
	NoBounds: {Name: "remote-no-bounds", Doc: "a slot is followed without a check of its bounds",
		Equivalent: "no run has damaged memory; tests of package remote do"},
	TornLink: {Name: "remote-torn-link", Doc: "a link is followed without a check of its type",
		Equivalent: "as remote-no-bounds"},
	KeepCached: {Name: "remote-keep-cached", Doc: "a copy keeps types that only the cache may store",
		Equivalent: "as remote-no-bounds"},
	AppendAnywhere: {Name: "remote-append-anywhere", Doc: "a copy is appended to a chain that has changed",
		Equivalent: "what a cache says is checked at the entry, and what it does not have is looked up"},
	ReuseBuffer: {Name: "remote-reuse-buffer",
		Doc: "the buffer of a READ that was given up is used again at once",
		Equivalent: "no run gives a READ up that is in flight, and a queue pair that has failed touches " +
			"nothing more"},
	NoDirectory: {Name: "remote-no-directory",
		Doc:        "an absence is believed though the table may have extents that are not known",
		Equivalent: "no table of a simulation grows; TestAbsenceIsBelievedAfterTheDirectory finds it"},
	OverflowUnread: {Name: "overflow-not-read",
		Doc: "a key that is not in its neighbourhood counts as absent, whatever overflow blocks hold"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// Mutate leaves a safety step out of the look-ups in the table, from now on; 0 is none.
func (t *Table) Mutate(m Mutation) { t.mutation = m }

// Mutate leaves a safety step out of the cache, which may be nil and which nobody uses yet.
func (c *Cache) Mutate(m Mutation) {
	for i := 0; c != nil && i < len(c.shards); i++ {
		c.shards[i].mutation = m
	}
}
