package remote

import "fmt"

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
	mutationEnd
)

// mutation describes one.
type mutation struct {
	name, doc string
	// equivalent says why no check can find it.
	equivalent string
}

var mutations = [mutationEnd]mutation{
	{name: "none", doc: "look-ups as they should be"},
	NoVerify: {name: "remote-no-verify",
		doc:        "an absence is believed though the chain may have changed while it was read",
		equivalent: "who finds no entry has the host make or find one, and locks or leases that"},
	CachedAbsence: {name: "remote-cached-absence", doc: "an absence is believed that only the cache knows",
		equivalent: "as remote-no-verify"},
	NoBounds: {name: "remote-no-bounds", doc: "a slot is followed wherever it leads",
		equivalent: "no memory of a run is damaged; tests of package remote do that"},
	TornLink: {name: "remote-torn-link", doc: "a link is followed whatever its type",
		equivalent: "as remote-no-bounds"},
	KeepCached: {name: "remote-keep-cached", doc: "a copy keeps what only the cache may put into it",
		equivalent: "as remote-no-bounds"},
	AppendAnywhere: {name: "remote-append-anywhere", doc: "a copy goes behind a chain that has changed",
		equivalent: "what a cache says is checked at the entry, and what it does not have is looked up"},
	ReuseBuffer: {name: "remote-reuse-buffer",
		doc: "the buffer of a READ that was given up is used again at once",
		equivalent: "no run gives a READ up that is in flight, and a queue pair that has failed touches " +
			"nothing more"},
	NoDirectory: {name: "remote-no-directory",
		doc:        "an absence is believed though the table may have extents that are not known",
		equivalent: "no table of a simulation grows; TestAbsenceIsBelievedAfterTheDirectory finds it"},
}

func (m Mutation) String() string {
	if m < mutationEnd {
		return mutations[m].name
	}
	return fmt.Sprintf("mutation(%d)", uint8(m))
}

// Doc is one line on what is wrong.
func (m Mutation) Doc() string { return mutations[m].doc }

// Equivalent says why no check can find it; "" is one that checks must find.
func (m Mutation) Equivalent() string { return mutations[m].equivalent }

// Mutations are all there are.
func Mutations() (all []Mutation) {
	for m := Mutation(1); m < mutationEnd; m++ {
		all = append(all, m)
	}
	return all
}

// Mutate leaves a safety step out of the look-ups in the table, from now on; 0 is none.
func (t *Table) Mutate(m Mutation) { t.mutation = m }

// Mutate leaves a safety step out of the cache, which may be nil and which nobody uses yet.
func (c *Cache) Mutate(m Mutation) {
	for i := 0; c != nil && i < len(c.shards); i++ {
		c.shards[i].mutation = m
	}
}
