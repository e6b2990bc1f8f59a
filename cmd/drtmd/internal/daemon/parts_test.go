package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

func TestEventsKeepTheLastOnes(t *testing.T) {
	e := newEvents()
	for i := range keptEvents + 7 {
		e.add(status.Info, fmt.Sprint(i))
	}
	list := e.last()
	last := fmt.Sprint(keptEvents + 6)
	if len(list) != keptEvents || list[0].Text != "7" || list[keptEvents-1].Text != last {
		t.Errorf("%d events, from %q to %q", len(list), list[0].Text, list[len(list)-1].Text)
	}
}

func TestIdentityLastsAndIsPrivate(t *testing.T) {
	d := &Daemon{stateDir: t.TempDir()}
	if id, err := d.readIdentity(); err != nil || id.Node != member.AnyNode {
		t.Fatalf("without a file: %+v, %v", id, err)
	}
	want := identity{Cluster: "lab-1", Node: 3, Incarnation: 9}
	if err := d.writeIdentity(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.readIdentity()
	if want.Folder = got.Folder; err != nil || got != want || got.copied() {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	other := &Daemon{stateDir: t.TempDir()}
	if err := os.CopyFS(other.stateDir, os.DirFS(d.stateDir)); err != nil {
		t.Fatal(err)
	}
	if got, err := other.readIdentity(); err != nil || !got.copied() || got.Incarnation != 0 {
		t.Errorf("a copy of the folder is taken for the node: %+v, %v", got, err)
	}
	name := filepath.Join(d.stateDir, identityFile)
	i, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if i.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", i.Mode())
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.readIdentity(); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a broken file gives %v, which does not name it", err)
	}
}

func TestAPlaneIsOnlyOfMembersOfTheNewestView(t *testing.T) {
	a, b := member.Member{Node: 0, Incarnation: 1}, member.Member{Node: 1, Incarnation: 2}
	again := member.Member{Node: 1, Incarnation: 3}
	m := member.ShardMap{Version: 5, Primary: []member.Member{a, b}}
	both := member.View{Epoch: 2, Members: []member.Member{a, b}}
	alone := member.View{Epoch: 3, Members: []member.Member{a}}
	other := member.View{Epoch: 4, Members: []member.Member{a, again}}
	for name, c := range map[string]struct {
		state member.State
		stale bool
	}{
		"all there":              {member.State{Active: both}, false},
		"one goes":               {member.State{Active: both, Pending: &alone}, true},
		"one is in another life": {member.State{Active: other}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := allThere(&c.state, &m); errors.Is(err, member.ErrStale) != c.stale {
				t.Errorf("%v", err)
			}
		})
	}
}
