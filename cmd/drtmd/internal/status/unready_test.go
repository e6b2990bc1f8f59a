package status

import (
	"testing"

	"drtmd/proto"
	"drtmd/proto/member"
)

func TestWhoShouldServeAndDoesNot(t *testing.T) {
	a, b := member.Member{Node: 0, Incarnation: 1}, member.Member{Node: 1, Incarnation: 2}
	const none = proto.NodeID(255)
	for name, c := range map[string]struct {
		phase  Phase // of b
		member bool  // it is one
		want   proto.NodeID
	}{
		"ready": {Ready, true, none}, "running": {Running, true, none},
		"connecting": {Connecting, true, 1}, "draining": {Draining, true, 1},
		"refusing": {Refusing, true, 1}, "does not answer": {Gone, true, 1},
		"not yet a member": {Joining, false, 1}, "was a member": {Gone, false, none},
	} {
		t.Run(name, func(t *testing.T) {
			st := &Cluster{Nodes: []Node{{Member: a, Phase: Ready}, {Member: b, Phase: c.phase}}}
			st.State.Active.Members = []member.Member{a}
			if c.member {
				st.State.Active.Members = append(st.State.Active.Members, b)
			}
			got := none
			if n := st.Unready(); n != nil {
				got = n.Member.Node
			}
			if got != c.want {
				t.Errorf("node %d, want %d", got, c.want)
			}
		})
	}
}
