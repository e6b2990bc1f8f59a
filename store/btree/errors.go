package btree

import (
	"fmt"

	"drtmd/store"
)

// ErrNodesFull: the tree needs another node and there is none. It is a store.ErrFull.
var ErrNodesFull error = fmt.Errorf("%w: no free node of the tree; make the table with more nodes",
	store.ErrFull)
