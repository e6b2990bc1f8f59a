package fasst_test

import (
	"slices"
	"testing"

	"drtmd/proto/enginetest"
	"drtmd/proto/occ"
	"drtmd/proto/occ/fasst"
	"drtmd/proto/option"
)

// TestLockingAtTheCommit runs the suite of engines with the other value of option "lock".
func TestLockingAtTheCommit(t *testing.T) {
	p := fasst.Protocol()
	i := slices.IndexFunc(p.Options, func(o option.Option) bool { return o.Name == occ.OptLock })
	p.Options[i] = option.Choice(occ.OptLock, []string{occ.LockLate, occ.LockEarly}, p.Options[i].Doc)
	p.LocksLate = true
	enginetest.Run(t, p, enginetest.Hosts()[1:]...)
}
