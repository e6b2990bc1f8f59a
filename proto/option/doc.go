// Package option describes settings: those of a protocol or of a workload, which a command line, a
// configuration file, the environment or a plan that travels between nodes may give.
//
// # How it is used
//
// Whoever has settings describes them once, in a List; an Option has a name, a type, a default, bounds
// and a line of help. Settings are what was given, as text: flags (Register, Given), keys of a file or
// variables (Key, Set), JSON. List.Values checks them and gives Values, which have every option of the
// list, with its type:
//
//	list := option.List{
//		option.Duration("lease", 400*time.Microsecond, time.Microsecond, time.Hour,
//			"`TIME` that a read lease lasts"),
//		option.Choice("index", []string{"sherman", "race"}, "`NAME` of the index")}
//	values, err := list.Values(option.Settings{"lease": "1ms"})
//	lease := values.Duration("lease")
//
// Names are words joined by dashes: --lease-read-only on the command line, lease_read_only in files
// and JSON. Several lists may have an option of one name, if it has one type (Union): it is one flag
// then.
//
// # What is an error, and what a bug
//
// A name that the list lacks, a text that is no value of the type, and a value out of bounds are an
// *Error, which says what was expected; the default of an option is not checked, and may stand
// for "chosen by whoever takes it". Asking Values for an option that its list lacks, or by another
// type, is a bug and panics, as is an Option that contradicts itself.
//
// Everything here is a value without state, for any goroutine.
package option
