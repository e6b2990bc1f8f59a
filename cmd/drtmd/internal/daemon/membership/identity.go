package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"drtmd/cmd/drtmd/internal/service"
	"drtmd/internal/durable"
	"drtmd/proto/member"
)

// identity is what a node knows of its former lives; a file in the state folder.
type identity struct {
	Cluster     string             `json:"cluster"` // member.State.Cluster
	Node        int                `json:"node"`
	Incarnation member.Incarnation `json:"incarnation"`
	// Folder is the inode of the state folder: a copy of it is not the node's that it was made of.
	Folder uint64 `json:"folder"`
}

const identityFile = "identity.json"

func readIdentity(stateDir string) (identity, error) {
	var id identity
	name := filepath.Join(stateDir, identityFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return identity{Node: member.AnyNode}, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil {
		return id, fmt.Errorf("cannot read %s, the identity of this node: %w; remove it to join as "+
			"a new node", name, err)
	}
	folder, err := service.Inode(stateDir)
	if folder != id.Folder {
		return identity{Node: member.AnyNode, Folder: id.Folder}, err
	}
	return id, err
}

// copied reports that the state folder is a copy of that of another node, who may live.
func (id *identity) copied() bool { return id.Node == member.AnyNode && id.Folder != 0 }

// write replaces the file as a whole.
func (id identity) write(stateDir string) error {
	var err error
	if id.Folder, err = service.Inode(stateDir); err != nil {
		return err
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(stateDir, identityFile), append(b, '\n'), 0o600)
}
