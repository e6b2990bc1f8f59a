package race

import "drtmd/internal/mutation"

// bug is a deliberate one.
type bug uint8

const (
	bugNone bug = iota
	bugNoReread
	bugOneBucket
	bugNoCompare
	bugNoLockCheck
	bugOldDirectory
	bugDeleteBlind
	bugRecordTrusted
	bugUnsettled
	bugCopyUnlocked
	bugGivesUpEarly
	bugUnburied
)

var bugs = mutation.Table[bug]{
	{Name: "none", Doc: "correct"},
	bugNoReread:      {Name: "insert-without-duplicate-re-read", Doc: "an insertion does not look for another one of its key"},
	bugOneBucket:     {Name: "lookup-reads-one-bucket", Doc: "a look-up looks into the first combined bucket only"},
	bugNoCompare:     {Name: "fingerprint-without-key-compare", Doc: "a record whose fingerprint fits is taken for the key's"},
	bugNoLockCheck:   {Name: "insert-during-rehash-without-lock-check", Doc: "a change does not look whether a rehash has begun"},
	bugOldDirectory:  {Name: "old-directory-trusted", Doc: "a subtable is used where it was, though it is elsewhere by now"},
	bugDeleteBlind:   {Name: "delete-cas-without-compare", Doc: "a deletion changes the slot whatever it has by now"},
	bugRecordTrusted: {Name: "record-not-checked", Doc: "a block is taken for the slot's record, though it may be used again"},
	bugUnsettled:     {Name: "unsettled-record-replaced", Doc: "a record is replaced before its owner's slot knows of it"},
	bugCopyUnlocked:  {Name: "rehash-copies-before-lock", Doc: "a rehash copies the subtable before it has locked it"},
	bugUnburied: {Name: "split-subtable-unmarked",
		Doc: "a subtable whose halves are both new keeps its headers: who had its name uses it"},
	bugGivesUpEarly: {Name: "change-under-rehash-forgotten", Doc: "a change that met a rehash counts as not done"},
}

// Mutations lists the deliberate bugs.
func Mutations() []mutation.Mutation { return bugs.List("race") }
