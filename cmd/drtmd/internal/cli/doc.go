// Package cli is drtmd's command tree: one file for each command, which parses and checks the
// command line, calls the packages that do the work, and prints what they return.
//
// Results go to standard output, everything else to standard error. The README lists the exit codes.
// The text of an error says the next step where there is one.
package cli
