// Package tempdir gives a test binary a folder for temporary files of its own, for packages whose tests kill
// processes: what these leave behind goes with it.
package tempdir

import (
	"fmt"
	"os"
)

// Own makes the folder, and has this process and those that it starts use it. remove removes it and passes the
// code of the tests on; it is 1 if that fails. Call Own before anything asks for a temporary folder.
func Own() (remove func(code int) int, err error) {
	dir, err := os.MkdirTemp("", "dt") // short: names of sockets are
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return nil, err
	}
	return func(code int) int {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
		return code
	}, nil
}
