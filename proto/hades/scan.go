package hades

import (
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
)

// Keys implements txset.Scanner: the lines of pages are read, then their keys.
func (x *tx) Keys(t proto.TableID, at proto.Location, from, to proto.Key, list []proto.Key) (n int, err error) {
	for {
		home, b, err := x.home(at.Primary, at.Shard)
		if err != nil {
			return 0, err
		}
		table := &b.tables[t-1]
		if err := x.readPage(at.Primary, table, from); err != nil {
			return 0, err
		}
		if !home.Alive() {
			continue // it waits
		}
		end, last := table.span(from, to)
		n += x.e.keysOf(home, table, from, end, list[n:])
		if last || n == len(list) {
			return n, nil
		}
		if from > to {
			from = end - 1
		} else {
			from = end + 1
		}
	}
}

// readPage reads the line of the page that a key is in.
func (x *tx) readPage(n proto.NodeID, t *table, k proto.Key) error {
	line := t.guard(k)
	x.pages = append(x.pages, page{n, line})
	if err := x.over(); err != nil {
		return err
	}
	if n == x.e.env.Node {
		if err := x.readGuard(line, false); err != nil {
			return err
		}
		return x.spend(findPs)
	}
	if x.e.chip.Copy(x.number, hardware.NodeID(n), line, &x.line) {
		return nil // it was read before
	}
	if err := x.fetchGuard(hardware.NodeID(n), line, false); err != nil {
		return err
	}
	return x.answered()
}
