package membership

import (
	"testing"

	"drtmd/proto/member"
)

// TestClientsOfFormerAddressesAreClosed, and those of members, and of the plane, are kept.
func TestClientsOfFormerAddressesAreClosed(t *testing.T) {
	at := func(address string) member.Member { return member.Member{Control: address} }
	m := newRoom(t).m
	defer func() {
		if err := m.CloseClients(); err != nil {
			t.Error(err)
		}
	}()
	const stays, goes, comes, held = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"
	m.state.Active.Members = []member.Member{at(stays), at(goes)}
	m.Plane([]member.Member{at(held)})
	kept, err := m.Client(stays)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{goes, held} {
		if _, err := m.Client(address); err != nil {
			t.Fatal(err)
		}
	}
	list := func() int { return len(m.contacts.list) }
	m.state.Active.Members[1] = at(comes)
	m.state.Pending = &member.View{Members: []member.Member{at(stays), at(goes)}}
	if _, err := m.Client(comes); err != nil || list() != 4 {
		t.Fatalf("%d clients while a view is pending, %v", list(), err)
	}
	m.state.Pending = nil
	if again, err := m.Client(stays); err != nil || again != kept {
		t.Errorf("another client of a member: %v", err)
	}
	if list() != 3 || m.contacts.list[goes] != nil {
		t.Errorf("%d clients, of the former address %v", list(), m.contacts.list[goes])
	}
	m.Plane(nil)
	if _, err := m.Client(stays); err != nil || m.contacts.list[held] != nil {
		t.Errorf("the client of a former plane is kept: %v", err)
	}
}
