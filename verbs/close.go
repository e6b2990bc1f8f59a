package verbs

import "errors"

// closer is a driver's object.
type closer interface{ Close() error }

// closeAfter closes what was made before err, and returns both errors.
func closeAfter(err error, c closer) error { return errors.Join(err, c.Close()) }

func asError(err error, e **Error) bool { return errors.As(err, e) }
