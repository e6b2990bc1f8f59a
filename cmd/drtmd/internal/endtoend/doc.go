// Package endtoend tests clusters of real processes: drtmd serve on loopback, killed, stopped, cut
// off and started again, and drtmd's clients on them. It holds tests only.
package endtoend
