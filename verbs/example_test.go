package verbs_test

import (
	"fmt"
	"log"

	"drtmd/verbs"
	"drtmd/verbs/shm"
)

// side is one end of a connection: a device of its own, memory, and a queue pair.
type side struct {
	context *verbs.Context
	memory  *verbs.MR
	cq      *verbs.CQ
	qp      *verbs.QP
}

func open(p verbs.Provider) (s side, err error) {
	if s.context, err = p.Open(""); err != nil {
		return s, err
	}
	pd, err := s.context.AllocPD()
	if err != nil {
		return s, err
	}
	if s.memory, err = pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{}); err != nil {
		return s, err
	}
	if s.cq, err = s.context.CreateCQ(verbs.CQConfig{Depth: 16}); err != nil {
		return s, err
	}
	s.qp, err = pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq, SendDepth: 8,
		RecvDepth: 1, Access: verbs.AccessAll})
	return s, err
}

// Two ends in one process, and a READ of the one's memory by the other. On hardware or Soft-RoCE the
// provider is ibv.New(), and endpoint and RemoteMR travel between the processes as bytes.
func Example() {
	provider := shm.New(shm.Options{})
	near, err := open(provider)
	if err != nil {
		log.Fatal(err)
	}
	defer near.context.Close() // with everything that was made of it
	far, err := open(provider)
	if err != nil {
		log.Fatal(err)
	}
	defer far.context.Close()
	a, b := near.qp.Endpoint(), far.qp.Endpoint()
	if err := far.qp.Connect(&a, verbs.ConnectAttr{}); err != nil {
		log.Fatal(err)
	}
	if err := near.qp.Connect(&b, verbs.ConnectAttr{}); err != nil {
		log.Fatal(err)
	}
	copy(far.memory.Bytes(), "hello")
	remote := far.memory.Remote()
	_, err = near.qp.PostSend([]verbs.WR{{ID: 7, Op: verbs.OpRead, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE:        [verbs.MaxSGE]verbs.SGE{near.memory.SGE(0, 5)},
		RemoteAddr: remote.Addr, RKey: remote.RKey}})
	if err != nil {
		log.Fatal(err)
	}
	var completions [1]verbs.WC
	for n := 0; n == 0; {
		if n, err = near.cq.Poll(completions[:]); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(completions[0].ID, completions[0].Status == verbs.WCSuccess, string(near.memory.Bytes()[:5]))
	// Output: 7 true hello
}
