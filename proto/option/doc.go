// Package option describes the options of a protocol or a workload. Their values come from a command line, a
// configuration file, the environment, or a plan that one node sends to another.
//
// # Use
//
// A protocol or workload describes its options once, in a List. An Option has a name, a type, a default,
// bounds and a line of help. Settings are the given values as text: from flags (Register, Given), keys of a
// file or variables (Key, Set), or JSON. List.Values checks them and returns Values, which have every option
// of the list with its type:
//
//	list := option.List{
//		option.Duration("lease", 400*time.Microsecond, time.Microsecond, time.Hour,
//			"`TIME` that a read lease lasts"),
//		option.Choice("index", []string{"sherman", "race"}, "`NAME` of the index")}
//	values, err := list.Values(option.Settings{"lease": "1ms"})
//	lease := values.Duration("lease")
//
// Names are words joined by dashes: --lease-read-only on the command line, lease_read_only in files
// and JSON. Several lists may have an option of the same name and type (Union), which is then one flag.
//
// # Errors and bugs
//
// An unknown name, a text that is no value of the type, and a value out of bounds are an *Error, which says
// what was expected. The default of an option is not checked; it may be out of bounds and stand for a value
// that the user of the option chooses. To ask Values for an option that its list lacks, or with another type,
// is a bug and panics, and so does an inconsistent Option.
//
// All types are values without state; any goroutine may use them.
package option
