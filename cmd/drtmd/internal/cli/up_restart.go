package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// restart starts nodes of a running cluster again, and waits until all of them are ready: where the tables are kept none is
// before each node that keeps a partition is there.
func (a *app) restart(ctx context.Context, p *upPlace, dir, which string) error {
	st, err := readUpState(dir)
	if err != nil {
		return err
	}
	if st == nil {
		return fmt.Errorf("no cluster was started in %s; drtmd up starts one", dir)
	}
	members, err := st.stopped(dir, which)
	if err != nil {
		return err
	}
	var nodes []*upNode
	for _, m := range members {
		if err := awaitUnlocked(ctx, filepath.Join(dir, m.Name, "state")); err != nil {
			return err
		}
		n, err := launchNode(dir, *m)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	var errs []error
	for _, n := range nodes {
		n.advice = func() string { return downAdvice(st, n.Name, p, dir) }
		err := a.await(ctx, n)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%s continues, but this command no longer waits for it; its log: %s: %w", n.Name, n.log, err)
		}
		if errs = append(errs, err); err == nil {
			fmt.Fprintf(a.stdout, "%s runs again: process %d, %s\n", n.Name, n.cmd.Process.Pid,
				strings.TrimPrefix(n.line, "READY "))
		}
	}
	return errors.Join(errs...)
}

// stopped are the members that a list such as "1,node2" names, each once. None of them may run.
func (s *upState) stopped(dir, which string) (members []*upMember, err error) {
	for _, one := range strings.Split(which, ",") {
		m, err := s.find(one)
		if err != nil {
			return nil, err
		}
		if id := livingNode(filepath.Join(dir, m.Name)); id != 0 {
			return nil, fmt.Errorf("%s runs (process %d); drtmd drain --node %s ends it", m.Name, id, m.Name)
		}
		if !slices.Contains(members, m) {
			members = append(members, m)
		}
	}
	return members, nil
}

// downAdvice names the nodes that are down beside one that has been started again, with the command that starts them. It
// begins with a semicolon, or is empty.
func downAdvice(st *upState, started string, p *upPlace, dir string) string {
	var names, numbers []string
	for i := range st.Nodes {
		if n := &st.Nodes[i]; livingNode(filepath.Join(dir, n.Name)) == 0 && n.Name != started {
			names, numbers = append(names, n.Name), append(numbers, strconv.Itoa(i))
		}
	}
	is := "is"
	switch len(names) {
	case 0:
		return ""
	case 1:
	default:
		is = "are"
	}
	return fmt.Sprintf("; %s %s down, and needed if tables are kept: drtmd up --restart %s%s, from another terminal",
		strings.Join(names, " and "), is, strings.Join(numbers, ","), p.flag(dir))
}
