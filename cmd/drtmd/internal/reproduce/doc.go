// Package reproduce lists every table and figure of the five papers, and runs those that drtmd can
// reproduce: it gives the paper's numbers beside ours, with the deviation, the bound on it and the
// reading under which they are compared.
//
// # Kinds
//
//   - exact: arithmetic, or counting what the code does. No clock has a part in it.
//   - measured: ratios of wall-clock times of runs on this machine.
//   - modelled: virtual time, by a cost model that the item names.
//   - not reproducible here: the item says why, for instance that it is a drawing.
//
// # The papers' numbers
//
// They are data of the item, each with its section. What a paper does not print is not compared:
// curves of figures whose points are not printed have no number here. No result of ours is written
// down: each comes from a run.
//
// # Adding an item
//
// Give the entry in the paper's file a run function, and the time that it takes. It returns rows
// and charts; package report prints them. testdata/captions.txt has the captions of all tables and
// figures, and a test compares the lists with it.
package reproduce
