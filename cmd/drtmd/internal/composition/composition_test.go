package composition

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
)

// TestOptionsAgree: an option that several have is one flag, and each has help and an example that is
// taken.
func TestOptionsAgree(t *testing.T) {
	c := BuiltIn()
	for _, s := range slices.Concat(c.OfProtocols, c.OfWorkloads) {
		for _, v := range s.Variants {
			if v.Doc == "" {
				t.Errorf("option %s of %v has no help", v.Name, v.Owners)
			}
			if _, err := v.Parse(v.Example()); err != nil {
				t.Errorf("example of %v", err)
			}
		}
	}
}

func toyProtocol(name string, options ...option.Option) node.Protocol {
	return node.Protocol{Name: name, Options: options,
		New: func(*protocol.Env) (proto.Engine, error) { return nil, errors.New("a toy") }}
}

func toyWorkload(name string, options ...option.Option) workload.Spec {
	return workload.Spec{Name: name, Options: options,
		New: func(int, option.Values) (workload.Workload, error) { return nil, errors.New("a toy") }}
}

func TestAProgramsOwnAreFoundBesideTheOthers(t *testing.T) {
	c, err := New([]node.Protocol{toyProtocol("toy")}, []workload.Spec{toyWorkload("toys",
		option.Int("boxes", 1, 1, 9, "`N` boxes"))})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Protocol("toy")
	if err != nil || p.Holder == nil {
		t.Errorf("toy is %+v, %v", p, err)
	}
	if w, err := c.Workload("toys"); err != nil || w.Name != "toys" {
		t.Errorf("toys is %v, %v", w, err)
	}
	if c.DefaultProtocol().Name == "toy" || c.DefaultWorkload().Name == "toys" {
		t.Error("an addition is the default")
	}
	var unknown *workload.UnknownError
	if _, err := c.Workload("tpcc2"); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "toys") {
		t.Errorf("unknown workload: %v", err)
	}
	if _, err := BuiltIn().Protocol("toy"); err == nil {
		t.Error("toy is built in")
	}
}

func TestAdditionsThatContradictAreRefused(t *testing.T) {
	first := BuiltIn()
	for name, x := range map[string]struct {
		protocols []node.Protocol
		workloads []workload.Spec
		want      string
	}{
		"two protocols": {[]node.Protocol{toyProtocol("drtm")}, nil, "two protocols drtm"},
		"two workloads": {nil, []workload.Spec{toyWorkload(first.Workloads[0].Name)}, "two workloads"},
		"no name":       {nil, []workload.Spec{toyWorkload("")}, "needs a Name"},
		"no New":        {[]node.Protocol{{Name: "toy"}}, nil, "needs a Name and New"},
		"type": {nil, []workload.Spec{toyWorkload("toys", option.Bool(first.OfWorkloads[0].Name, false, "x"))},
			"give one another name"},
		"whose": {nil, []workload.Spec{toyWorkload("toys", first.OfProtocols[0].Option)}, "one of protocol"},
	} {
		if _, err := New(x.protocols, x.workloads); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}
