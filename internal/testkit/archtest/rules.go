package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path that all packages begin with.
const Module = "drtmd"

// layer is a unit of packages: a folder and all below it that have no layer of their own.
type layer struct {
	folder string
	height int
}

// layers from top to bottom. A package imports packages of lower layers and of its own unit.
var layers = []layer{
	{"cmd/drtmd", 100}, {"scripts", 100},
	{"proto/scenario", 95}, {"proto/enginetest", 95},
	{"proto/node", 90},
	{"proto/workload", 85}, // and the protocols: see protocolHeight
	{"proto/occ/occtest", 95},
	{"proto/occ/fasst", 85}, {"proto/occ/drtmh", 85}, {"proto/occ/drtmr", 85},
	{"proto/occ/drtmocc", 85}, {"proto/occ/dandelion", 85}, {"proto/occ/farm", 85},
	{"proto/occ", 84},
	{"proto/onesided", 83}, {"proto/protocol", 82},
	{"proto/txset", 81}, {"proto/check", 81},
	{"proto/history", 80}, {"proto/member", 80}, {"proto/placement", 79},
	{"proto/recovery", 80}, {"proto/memnode", 79},
	{"proto/txctx", 75},
	{"proto", 70},
	{"proto/option", 65}, {"proto/chop", 65},
	{"store", 60},
	{"htm", 55},
	{"verbs/scenario", 54},
	{"verbs/ring", 53},
	{"verbs/rpc", 52},
	{"verbs/smartnic", 51},
	{"verbs/fiber", 50},
	{"verbs/ibv", 40}, {"verbs/shm", 40}, {"verbs/sim", 40},
	{"verbs/nic", 31},
	{"verbs/verbstest", 25},
	{"verbs/lines", 24},
	{"verbs", 20},
	{"verbs/lineword", 10},
	{"verbs/internal/table", 10},
	{"internal/testkit", 5},
	{"internal/durable", 1},
	{"internal/hostmem", 1},
	{"internal/invariant", 1},
	{"internal/mutation", 1},
}

// providers are named only where programs are put together.
var providers = []string{"verbs/ibv", "verbs/shm", "verbs/sim"}

// mayNameProviders besides the provider itself.
var mayNameProviders = []string{"cmd/drtmd/internal/transport", "proto/node"}

// maySimulate: scenarios are programs of the simulator, and so are the commands that run them, and
// modelled figures, and what several packages' tests share.
var maySimulate = []string{"verbs/scenario", "proto/scenario", "cmd/drtmd/internal/cli",
	"cmd/drtmd/internal/reproduce", "proto/rtx/rtxtest"}

// etcd is known to one package (design decision 11).
const (
	etcd        = "go.etcd.io/"
	mayNameEtcd = "proto/member/etcdmember"
)

// Package is what the rules look at.
type Package struct {
	ImportPath string
	Imports    []string // of its non-test files
	CgoFiles   []string
}

// Violations says, a line each, which packages break the rules.
func Violations(packages []Package) []string {
	var v []string
	for _, p := range packages {
		folder := relative(p.ImportPath)
		from, ok := layerOf(folder)
		if !ok {
			v = append(v, folder+" has no layer: give it one in archtest and ARCHITECTURE.md")
			continue
		}
		if (len(p.CgoFiles) > 0 || slices.Contains(p.Imports, "C")) && from.folder != "verbs/ibv" {
			v = append(v, folder+" uses cgo, which is for verbs/ibv alone")
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, etcd) && folder != mayNameEtcd {
				v = append(v, fmt.Sprintf("%s imports %s; only %s knows etcd", folder, i, mayNameEtcd))
			}
			if imported := relative(i); imported != "" {
				v = append(v, edge(folder, from, imported)...)
			}
		}
	}
	return v
}

// edge applies the rules to one import.
func edge(folder string, from layer, imported string) []string {
	to, ok := layerOf(imported)
	if !ok || to.folder == from.folder {
		return nil // an import without a layer is told of at its own package
	}
	var v []string
	if to.height >= from.height {
		v = append(v, fmt.Sprintf("%s imports %s, which is not below it", folder, imported))
	}
	if from.folder == "htm" && to.folder != "verbs/lineword" && to.folder != "internal/invariant" &&
		to.folder != "internal/mutation" {
		v = append(v, fmt.Sprintf("%s imports %s; htm knows only verbs/lineword", folder, imported))
	}
	if slices.Contains(providers, to.folder) && !slices.Contains(mayNameProviders, folder) &&
		!(to.folder == "verbs/sim" && slices.Contains(maySimulate, folder)) {
		v = append(v, fmt.Sprintf("%s names the provider %s; only %s may", folder, imported,
			strings.Join(mayNameProviders, " and ")))
	}
	return v
}

// relative is the path within the module, or "" for a package of elsewhere.
func relative(path string) string {
	rest, ok := strings.CutPrefix(path, Module+"/")
	if !ok {
		return ""
	}
	return rest
}

// layerOf finds the layer with the longest folder that holds the package.
func layerOf(folder string) (layer, bool) {
	best, _ := newProtocol(folder)
	for _, l := range layers {
		if (folder == l.folder || strings.HasPrefix(folder, l.folder+"/")) &&
			(len(l.folder) > len(best.folder) || l.folder == best.folder) {
			best = l
		}
	}
	return best, best.folder != ""
}

// protocolHeight is that of the protocols: of every folder in proto that has no layer of its own.
const protocolHeight = 85

// newProtocol is the layer of a folder in proto that the table does not have.
func newProtocol(folder string) (layer, bool) {
	rest, ok := strings.CutPrefix(folder, "proto/")
	if !ok {
		return layer{}, false
	}
	name, _, _ := strings.Cut(rest, "/")
	return layer{"proto/" + name, protocolHeight}, true
}
