package daemon

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/tempdir"
)

// TestMain runs more tests at a time than there are CPUs: most of them wait for leases to end.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.NumCPU())); err != nil {
			panic(err)
		}
	}
	remove, err := tempdir.Own()
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(remove(code)) }))
}
