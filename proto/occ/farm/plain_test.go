package farm_test

import (
	"testing"

	"drtmd/proto/enginetest"
	"drtmd/proto/occ/farm"
	"drtmd/proto/option"
)

// TestWithoutTheOptimisations runs the suite of engines with the other value of each option.
func TestWithoutTheOptimisations(t *testing.T) {
	p := farm.Protocol()
	for i, o := range p.Options {
		if was, ok := o.Default.(bool); ok {
			p.Options[i] = option.Bool(o.Name, !was, o.Doc)
		}
	}
	enginetest.Run(t, p, enginetest.Hosts()[1:]...)
}
