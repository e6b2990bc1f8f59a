// Package hosts holds the tests between two hosts: the guests that scripts/rxe-vm/run --nodes 2
// boots. The same test binary runs on both at once; NODE (1 or 2) says which guest it is, and the stories of
// scripts/rxe-vm/tests disturb the link meanwhile. Everywhere else the tests are skipped.
package hosts
