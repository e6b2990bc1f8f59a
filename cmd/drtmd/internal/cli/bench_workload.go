package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/internal/invariant"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/lookup"
)

// lookupName stands for the table that package lookup computes: no transactions run.
const lookupName = "lookup"

// optSlots is the one option of lookup.
const optSlots = "slots"

// lookupSpec describes it like a workload, but for New.
func lookupSpec() workload.Spec {
	return workload.Spec{Name: lookupName,
		Doc: "READs per look-up in DrTM's hash table, beside Table VI; no transactions",
		Options: option.List{option.Int(optSlots, lookup.DefaultSlots, lookup.MinSlots, lookup.MaxSlots,
			"`N` main slots of each structure")}}
}

// benchWorkloads are those that run transactions, and lookup.
func benchWorkloads(has *composition.Composition) []workload.Spec {
	return append(slices.Clip(has.Workloads), lookupSpec())
}

// workloadLines lists them for help.
func workloadLines(has *composition.Composition) string {
	var b strings.Builder
	for _, w := range benchWorkloads(has) {
		fmt.Fprintf(&b, "  %-10s %s\n", w.Name, w.Doc)
	}
	return b.String()
}

// workloadOptions are those of all workloads.
func workloadOptions(has *composition.Composition) []option.Shared {
	var owners []option.Owner
	for _, w := range benchWorkloads(has) {
		owners = append(owners, option.Owner{Name: w.Name, Options: w.Options})
	}
	all, err := option.Union(owners)
	invariant.Assertf(err == nil, "%v", err) // lookup's are of its own
	return all
}

// registerOptions makes flags of options, unless the command has another flag of that name.
func registerOptions(f *pflag.FlagSet, all []option.Shared) error {
	for i := range all {
		if f.Lookup(all[i].Name) != nil {
			return fmt.Errorf("option %s of %s has the name of a flag of drtmd bench: give it another name",
				all[i].Name, strings.Join(all[i].Owners, ", "))
		}
	}
	option.Register(f, all)
	return nil
}

// findWorkload finds a workload by name.
func findWorkload(has *composition.Composition, name string) (*workload.Spec, error) {
	w, err := workload.Find(benchWorkloads(has), name)
	if unknown := (*workload.UnknownError)(nil); errors.As(err, &unknown) {
		return nil, usagef("known: "+strings.Join(unknown.Known, ", ")+"; drtmd bench --list describes them",
			"unknown workload %q", name)
	}
	return w, err
}

// takenOptions are the flags that were given of all options of a kind, "workload" or "protocol". One
// that the owner lacks is refused with whose it is, and so is a value out of bounds.
func takenOptions(f *pflag.FlagSet, all []option.Shared, kind, owner string, list option.List) (
	option.Settings, error) {
	given := option.Given(f, all)
	for i := range all {
		o := &all[i]
		if _, ok := given[o.Name]; ok && !slices.Contains(o.Owners, owner) {
			return nil, usagef("it is one of "+kind+" "+strings.Join(o.Owners, ", "), "%s %s has no --%s",
				kind, owner, o.Name)
		}
	}
	if _, err := list.Values(given); err != nil {
		return nil, usagef("", "--%v", err)
	}
	return given, nil
}

// checkWorkload makes the workload of the flags.
func (r *benchRun) checkWorkload(f *pflag.FlagSet, spec *workload.Spec) (err error) {
	p := r.flags
	r.loadOptions, err = takenOptions(f, workloadOptions(r.has), "workload", spec.Name, spec.Options)
	if err != nil {
		return err
	}
	if r.index != nil {
		r.fitIndex(spec)
	}
	v, err := spec.Options.Values(r.loadOptions)
	if err != nil {
		return err
	}
	r.allOptions = v.Settings()
	for _, name := range spec.Remote {
		if text := option.Text(v.Any(name)); v.Given(name) && p.nodes == 1 && text != "0" && text != "false" {
			return usagef("give it --nodes 2 or more", "--%s %s needs two nodes", name, text)
		}
	}
	r.verify, r.perMinute = spec.Verify, spec.PerMinute
	r.workload, r.settings, err = spec.Make(p.nodes, r.loadOptions)
	if err != nil {
		return usagef("drtmd bench --list "+spec.Name+" describes its options", "%v", err)
	}
	if err := node.CheckDeclared(&r.protocol, r.workload); err != nil {
		return usagef("", "%v", err)
	}
	for _, t := range r.workload.Tables() {
		if err := r.protocol.CheckStore(t.Ordered); err != nil {
			return usagef("", "table %q of workload %s: %v", t.Name, spec.Name, err)
		}
		if r.index == nil {
			continue
		}
		if err := r.index.Takes(t); err != nil {
			return usagef("", "%v", err)
		}
	}
	return nil
}
