package recovery

import (
	"cmp"
	"slices"
	"sync"

	"drtmd/proto"
)

// Place names a record of a replica.
type Place struct {
	Shard proto.ShardID
	Table proto.TableID
	Key   proto.Key
}

// Place is that of the record that is written.
func (w *Write) Place() Place { return Place{Shard: w.Shard, Table: w.Table, Key: w.Key} }

// Keeper is a transaction for which a record stays locked, with its lock word.
type Keeper struct {
	Name Name
	Word uint64
}

// Kept are the records of a machine's promoted replicas that stay locked for transactions that are not decided.
// The first keeper of a record has its word in the record. One record may have several keepers: a transaction
// whose update has reached the old primary, and the next one that locked it there. These may be of different
// workers, so the workers of a machine have one Kept. With one each, two workers that lock what two such
// transactions wrote would wait for one another, each for a decision that needs the other one.
//
// Its methods want the lock, which also guards the lock words of kept records. Nobody waits for anything
// else while it holds it.
type Kept struct {
	sync.Mutex
	places map[Place][]Keeper
}

// Of are the keepers of a record. They are valid until the next change.
func (k *Kept) Of(p Place) []Keeper { return k.places[p] }

// Index is that of a transaction among the keepers of a record; -1: it is none of them.
func (k *Kept) Index(p Place, n Name) int {
	return slices.IndexFunc(k.places[p], func(x Keeper) bool { return x.Name == n })
}

// Add adds a keeper to a record.
func (k *Kept) Add(p Place, x Keeper) {
	if k.places == nil {
		k.places = map[Place][]Keeper{}
	}
	k.places[p] = append(k.places[p], x)
}

// Remove takes the keeper with an index from a record, and gives those that are left.
func (k *Kept) Remove(p Place, i int) []Keeper {
	left := slices.Delete(k.places[p], i, i+1)
	if len(left) == 0 {
		delete(k.places, p)
		return nil
	}
	k.places[p] = left
	return left
}

// Where gives the keepers of a shard's records for which ok holds, ordered by table and key.
func (k *Kept) Where(s proto.ShardID, ok func(Name) bool) (places []Place, names []Name) {
	type pair struct {
		Place
		Name
	}
	var all []pair
	for p, list := range k.places {
		if p.Shard != s {
			continue
		}
		for _, x := range list {
			if ok(x.Name) {
				all = append(all, pair{p, x.Name})
			}
		}
	}
	slices.SortFunc(all, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
	})
	for _, x := range all {
		places, names = append(places, x.Place), append(names, x.Name)
	}
	return places, names
}
