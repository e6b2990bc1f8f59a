package node

import (
	"cmp"
	"errors"
	"slices"

	"drtmd/proto"
)

// Scan shows the records that there are now, with the function's own writes. A record that is found needs no
// declaration.
func (v *view) Scan(t proto.TableID, from, to proto.Key, each func(proto.Key, []byte) bool) error {
	if t < 1 || int(t) > len(v.specs) {
		return proto.UnknownTable(t, from, len(v.specs))
	}
	spec := v.specs[t-1]
	peek, ok := v.peek.(proto.RangePeeker)
	if !ok || !spec.Ordered {
		return proto.ErrUnsupported
	}
	keys, err := v.keys(peek, t, from, to)
	if err != nil {
		v.err = err
		return err
	}
	value := make([]byte, spec.ValueBytes)
	for _, k := range keys {
		o := v.written(t, k)
		switch {
		case o != nil && o.value == nil:
			continue
		case o != nil:
			copy(value, o.value)
		default:
			err := v.peek.Peek(v.f, t, k, value)
			if errors.Is(err, proto.ErrNotFound) {
				continue // it has gone meanwhile
			}
			if err != nil {
				v.err = err
				return err
			}
		}
		if !each(k, value) {
			break
		}
	}
	return nil
}

// keys are those of a range, in its order: of records, and of own writes.
func (v *view) keys(peek proto.RangePeeker, t proto.TableID, from, to proto.Key) (keys []proto.Key, err error) {
	some, at := make([]proto.Key, 64), from
	for {
		n, err := peek.PeekRange(v.f, t, at, to, some)
		if err != nil {
			return nil, err
		}
		keys = append(keys, some[:n]...)
		if n < len(some) || some[n-1] == to {
			break
		}
		if at = some[n-1] + 1; from > to {
			at = some[n-1] - 1
		}
	}
	for i := range v.own {
		if o := &v.own[i]; o.t == t && o.k >= min(from, to) && o.k <= max(from, to) {
			keys = append(keys, o.k)
		}
	}
	slices.SortFunc(keys, func(a, b proto.Key) int {
		if from > to {
			a, b = b, a
		}
		return cmp.Compare(a, b)
	})
	return slices.Compact(keys), nil
}
