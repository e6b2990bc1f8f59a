package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/internal/durable"
)

// upState is what drtmd up leaves in its folder once every node was ready: whom commands ask, and how a
// node is started again.
type upState struct {
	Nodes []upMember `json:"nodes"`
}

// upMember is a node of drtmd up.
type upMember struct {
	Name    string   `json:"name"`    // node0, ...: a folder of that name is its own
	Address string   `json:"address"` // of its control plane
	Args    []string `json:"args"`    // of drtmd
}

// upStateFile is in the folder of drtmd up.
const upStateFile = "cluster.json"

func (s *upState) addresses() (all []string) {
	for _, n := range s.Nodes {
		all = append(all, n.Address)
	}
	return all
}

// find finds a node by its number or its name.
func (s *upState) find(which string) (*upMember, error) {
	if i, err := strconv.Atoi(which); err == nil && i >= 0 && i < len(s.Nodes) {
		return &s.Nodes[i], nil
	}
	var names []string
	for i := range s.Nodes {
		if s.Nodes[i].Name == which {
			return &s.Nodes[i], nil
		}
		names = append(names, s.Nodes[i].Name)
	}
	return nil, usagef("the cluster has "+strings.Join(names, ", "), "no node %q", which)
}

// readUpState gives nil where no cluster was started.
func readUpState(dir string) (*upState, error) {
	name := filepath.Join(dir, upStateFile)
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, err
	}
	s := &upState{}
	if err := json.Unmarshal(b, s); err != nil || len(s.Nodes) == 0 {
		return nil, fmt.Errorf("cannot read %s, the state of drtmd up; drtmd down ends "+
			"the nodes in that folder", name)
	}
	return s, nil
}

// write replaces the file as a whole.
func (s *upState) write(dir string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, upStateFile)
	return durable.WriteFile(name, append(b, '\n'), 0o600)
}

// upDir is the folder of a cluster that drtmd up started: of a name, or "" of the user's own. A name
// with a slash is a folder.
func upDir(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	folder := "up"
	if name != "" {
		folder += "-" + name
	}
	return filepath.Join(service.RuntimeDir(""), folder)
}

// upPlace are the flags that say which cluster of drtmd up is meant.
type upPlace struct{ dir, name string }

// folder is where the cluster lives.
func (p *upPlace) folder() (string, error) {
	switch {
	case p.dir != "" && p.name != "":
		return "", usagef("leave one of them out", "--dir and --name do not go together")
	case p.dir != "":
		return filepath.Abs(p.dir)
	case strings.ContainsAny(p.name, "/ \t\n"):
		return "", usagef("--dir takes a folder", "--name %q is not a word", p.name)
	}
	return upDir(p.name), nil
}

// asked is what --cluster takes for the cluster; "" is what commands ask by themselves.
func (p *upPlace) asked(folder string) string {
	switch {
	case p.dir != "":
		return "up:" + folder
	case p.name != "":
		return "up:" + p.name
	}
	return ""
}

// flag gives the same again on a command line.
func (p *upPlace) flag(folder string) string {
	switch {
	case p.dir != "":
		return " --dir " + shellQuote(folder)
	case p.name != "":
		return " --name " + p.name
	}
	return ""
}

// restartAdvice is how the node at an address is started again; "": drtmd up has not started it.
func restartAdvice(address string) string {
	path, socket := strings.CutPrefix(address, "unix:")
	if !socket {
		return ""
	}
	dir := filepath.Dir(filepath.Dir(path)) // of a folder with a folder for each node
	st, err := readUpState(dir)
	if err != nil || st == nil {
		return ""
	}
	for i, n := range st.Nodes {
		if n.Address == address {
			return fmt.Sprintf("drtmd up --restart %d%s starts %s again", i, placeOf(dir).flag(dir), n.Name)
		}
	}
	return ""
}

// placeOf is how a folder of drtmd up is named on a command line.
func placeOf(dir string) *upPlace {
	if dir == upDir("") {
		return &upPlace{}
	}
	name, named := strings.CutPrefix(filepath.Base(dir), filepath.Base(upDir(""))+"-")
	if named && dir == upDir(name) {
		return &upPlace{name: name}
	}
	return &upPlace{dir: dir}
}

// upRunDir is where the nodes of a folder meet on shared memory: apart from those of other clusters.
func upRunDir(dir string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir)) // it never fails
	return transport.RunDir(fmt.Sprintf("up-%016x", h.Sum64()))
}

// livingNodes are the processes of nodes in a folder of drtmd up, by node.
func livingNodes(dir string) []int {
	files, err := filepath.Glob(filepath.Join(dir, "node*", pidFile))
	if err != nil {
		return nil
	}
	slices.SortFunc(files, func(a, b string) int { // node2 before node10
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	var all []int
	for _, f := range files {
		if id := livingNode(filepath.Dir(f)); id != 0 {
			all = append(all, id)
		}
	}
	return all
}

// livingNode is the process of the node of a folder, or 0.
func livingNode(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return 0
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || !isNode(id, dir) {
		return 0
	}
	return id
}

// isNode reports whether a process is the node of a folder, and not another one that got its id.
func isNode(id int, dir string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
	return err == nil && strings.Contains(string(b), dir+"/")
}
