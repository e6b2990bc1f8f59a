package transport

import (
	"errors"
	"testing"
)

func TestEveryNameMakesItsProvider(t *testing.T) {
	for _, name := range Names() {
		p, err := New(name, Options{})
		if err != nil || p.Name() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	var unknown *UnknownError
	if _, err := New("tcp", Options{}); !errors.As(err, &unknown) ||
		err.Error() != `unknown transport "tcp"; available: shm, ibv; ibv is RDMA `+
			"hardware and Soft-RoCE" {
		t.Errorf("%v", err)
	}
	if Names()[0] != Default {
		t.Error("the default is not the first")
	}
}
