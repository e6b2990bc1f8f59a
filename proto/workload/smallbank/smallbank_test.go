package smallbank

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// place is a record.
type place struct {
	t proto.TableID
	k proto.Key
}

// ledgerTx is a transaction on a map, which notes what it touches.
type ledgerTx struct {
	records map[place]int64
	touched map[place]proto.Mode
}

func (x *ledgerTx) read(t proto.TableID, k proto.Key, dst []byte, m proto.Mode) error {
	b, ok := x.records[place{t, k}]
	if !ok {
		return proto.ErrNotFound
	}
	x.touched[place{t, k}] = max(x.touched[place{t, k}], m)
	putBalance(dst, b)
	return nil
}

func (x *ledgerTx) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return x.read(t, k, dst, proto.ModeRead)
}

func (x *ledgerTx) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return x.read(t, k, dst, proto.ModeWrite)
}

func (x *ledgerTx) Write(t proto.TableID, k proto.Key, v []byte) error {
	x.records[place{t, k}] = balance(v)
	return nil
}

func (x *ledgerTx) ReadMany([]proto.Get) error                    { return proto.ErrUnsupported }
func (x *ledgerTx) Insert(proto.TableID, proto.Key, []byte) error { return proto.ErrUnsupported }
func (x *ledgerTx) Delete(proto.TableID, proto.Key) error         { return proto.ErrUnsupported }
func (x *ledgerTx) Scan(proto.TableID, proto.Key, proto.Key, func(proto.Key, []byte) bool) error {
	return proto.ErrUnsupported
}

// atRest are the map's records for the workload's check.
type atRest struct {
	workload.Contents
	x *ledgerTx
}

func (c atRest) Read(t proto.TableID, k proto.Key, dst []byte) error {
	putBalance(dst, c.x.records[place{t, k}])
	return nil
}

func TestTransactionsFollowTheRules(t *testing.T) {
	const a, b proto.Key = 1, 2
	type state struct{ savingsA, checkingA, savingsB, checkingB int64 }
	for _, c := range []struct {
		name          string
		tx            transaction
		before, after state
		rollback      bool
	}{
		{"payment", transaction{kind: SendPayment}, state{0, 500, 0, 7}, state{0, 0, 0, 507}, false},
		{"payment not covered", transaction{kind: SendPayment}, state{9999, 499, 0, 7},
			state{9999, 499, 0, 7}, true},
		{"amalgamate", transaction{kind: Amalgamate}, state{10, 20, 30, 40}, state{0, 0, 30, 70}, false},
		{"amalgamate a debt", transaction{kind: Amalgamate}, state{10, -50, 0, 40}, state{0, 0, 0, 0},
			false},
		{"balance", transaction{kind: Balance}, state{1, 2, 3, 4}, state{1, 2, 3, 4}, false},
		{"deposit", transaction{kind: DepositChecking}, state{1, 2, 3, 4}, state{1, 132, 3, 4}, false},
		{"check", transaction{kind: WriteCheck}, state{0, 500, 0, 0}, state{0, 0, 0, 0}, false},
		{"check covered by savings", transaction{kind: WriteCheck}, state{500, 0, 0, 0},
			state{500, -500, 0, 0}, false},
		{"overdraft", transaction{kind: WriteCheck}, state{499, 0, 0, 0}, state{499, -600, 0, 0}, false},
		{"savings deposit", transaction{kind: TransactSavings, amount: transactAmount},
			state{5, 0, 0, 0}, state{2025, 0, 0, 0}, false},
		{"savings withdrawal", transaction{kind: TransactSavings, amount: -transactAmount},
			state{2020, 0, 0, 0}, state{0, 0, 0, 0}, false},
		{"savings not covered", transaction{kind: TransactSavings, amount: -transactAmount},
			state{2019, 9, 0, 0}, state{2019, 9, 0, 0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &ledgerTx{touched: map[place]proto.Mode{}, records: map[place]int64{
				{Savings, a}: c.before.savingsA, {Checking, a}: c.before.checkingA,
				{Savings, b}: c.before.savingsB, {Checking, b}: c.before.checkingB}}
			c.tx.a, c.tx.b, c.tx.v = a, b, newTransaction(ValueBytes, false).v
			err := c.tx.Execute(x)
			if c.rollback != (err == proto.ErrRollback) || (err != nil && !c.rollback) {
				t.Fatalf("Execute: %v, want rollback %v", err, c.rollback)
			}
			got := state{x.records[place{Savings, a}], x.records[place{Checking, a}],
				x.records[place{Savings, b}], x.records[place{Checking, b}]}
			if got != c.after {
				t.Errorf("balances %+v, want %+v", got, c.after)
			}
			sum := func(s state) int64 { return s.savingsA + s.checkingA + s.savingsB + s.checkingB }
			if !c.rollback && c.tx.delta != sum(c.after)-sum(c.before) {
				t.Errorf("delta %d, but the money changed by %d", c.tx.delta, sum(c.after)-sum(c.before))
			}
		})
	}
}

func newBank(t *testing.T, change func(*Options)) *Bank {
	t.Helper()
	o := Default(3)
	o.Accounts = 1000
	change(&o)
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDrawsFollowTheOptions(t *testing.T) {
	const draws = 200_000
	const home = 1
	b := newBank(t, func(o *Options) { o.Distributed = 0.1 })
	c := newClient(b, home, rand.New(rand.NewPCG(1, 2)))
	var kind [kindEnd]int
	hot, accesses, far, two := 0, 0, 0, 0
	for range draws {
		d, p := c.Next()
		tx := p.(*transaction)
		kind[d.Kind]++
		if tx.a>>nodeShift != home {
			t.Fatalf("first customer %#x is not at home", tx.a)
		}
		count := func(k proto.Key) {
			accesses++
			if k&(1<<nodeShift-1) < 40 {
				hot++
			}
		}
		count(tx.a)
		if tx.kind == SendPayment || tx.kind == Amalgamate {
			two++
			count(tx.b)
			if tx.b>>nodeShift != home {
				far++
			}
			if tx.a == tx.b {
				t.Fatal("both customers are the same")
			}
		}
	}
	near := func(what string, got, of int, want float64) {
		sigma := math.Sqrt(want * (1 - want) / float64(of))
		if share := float64(got) / float64(of); math.Abs(share-want) > 5*sigma+0.002 {
			t.Errorf("%s: %.4f, want %.4f", what, share, want)
		}
	}
	for k := SendPayment; k < kindEnd; k++ {
		near(k.String(), kind[k], draws, float64(TableVII()[k-1])/100)
	}
	near("hot", hot, accesses, 0.9)
	near("distributed", far, two, 0.1)
}

func TestZipfTakesThePlaceOfTheHotSet(t *testing.T) {
	const draws = 100_000
	b := newBank(t, func(o *Options) { o.Theta = 0.9 })
	c := newClient(b, 0, rand.New(rand.NewPCG(1, 2)))
	first, highest := 0, proto.Key(0)
	for range draws {
		c.Next()
		if c.tx.a == 0 {
			first++
		}
		highest = max(highest, c.tx.a)
	}
	want := b.pick.zipf.Probability(0)
	if share := float64(first) / draws; math.Abs(share-want) > 0.01 || want < 0.05 {
		t.Errorf("customer 0 is drawn in %.4f, want %.4f", share, want)
	}
	if highest < 900 {
		t.Errorf("no customer above %d is drawn", highest)
	}
}

func TestDeclarationsNameWhatIsTouched(t *testing.T) {
	b := newBank(t, func(o *Options) { o.Distributed = 0.5 })
	x := &ledgerTx{records: map[place]int64{}}
	for n := range 3 {
		must(t, b.Load(proto.NodeID(n), func(t proto.TableID, k proto.Key, v []byte) error {
			x.records[place{t, k}] = balance(v)
			return nil
		}))
	}
	before := maps.Clone(x.records)
	c := b.NewClient(0, rand.New(rand.NewPCG(3, 4)))
	for range 20_000 {
		d, p := c.Next()
		x.touched = map[place]proto.Mode{}
		outcome := proto.Committed
		if err := p.Execute(x); errors.Is(err, proto.ErrRollback) {
			outcome = proto.RolledBack
		} else if err != nil {
			t.Fatal(err)
		} else if len(x.touched) != len(d.Accesses) {
			t.Fatalf("%v touches %v, declared are %v", Kind(d.Kind), x.touched, d.Accesses)
		}
		for p, m := range x.touched {
			i := slices.IndexFunc(d.Accesses, func(a proto.Access) bool {
				return a.Table == p.t && a.Key == p.k
			})
			if i < 0 || d.Accesses[i].Mode != m {
				t.Fatalf("%v: %v of %v is not in %v", Kind(d.Kind), m, p, d.Accesses)
			}
		}
		c.Done(outcome)
	}
	var did workload.Ledger
	c.AddTo(&did)
	check := func() error {
		var first, last workload.Quantities
		for n := range 3 {
			i, f, err := b.Check(proto.NodeID(n), atRest{x: x})
			must(t, err)
			first, last = first.Plus(i), last.Plus(f)
		}
		return did.Explains(first, last, b.Sums()...)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if maps.Equal(before, x.records) {
		t.Error("nothing happened")
	}
	x.records[place{Checking, 5}]++
	if check() == nil {
		t.Error("a cent too much was not noticed")
	}
}

func TestDrawingDoesNotAllocate(t *testing.T) {
	b := newBank(t, func(o *Options) { o.Distributed = 0.5 })
	c := b.NewClient(0, rand.New(rand.NewPCG(5, 6)))
	if n := testing.AllocsPerRun(1000, func() { c.Next(); c.Done(proto.Committed) }); n != 0 {
		t.Errorf("%v allocations per transaction", n)
	}
}

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no nodes":                func(o *Options) { o.Nodes = 0 },
		"one account":             func(o *Options) { o.Accounts = 1 },
		"distributed on one node": func(o *Options) { o.Nodes = 1 },
		"probability":             func(o *Options) { o.Distributed = 1.5 },
		"not a number":            func(o *Options) { o.Distributed = math.NaN() },
		"Zipf above 1":            func(o *Options) { o.Theta = 1.5 },
		"no hot accounts":         func(o *Options) { o.HotAccounts = 0 },
		"mix below 100":           func(o *Options) { o.Mix = Mix{50} },
		"mix above 100":           func(o *Options) { o.Mix = Mix{50, 60} },
	} {
		t.Run(name, func(t *testing.T) {
			o := Default(3)
			change(&o)
			if _, err := New(o); err == nil {
				t.Errorf("%+v was taken", o)
			}
		})
	}
}

func random() *rand.Rand { return rand.New(rand.NewPCG(7, 8)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkNext(b *testing.B) {
	o := Default(3)
	bank, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	c := bank.NewClient(0, rand.New(rand.NewPCG(5, 6)))
	b.ReportAllocs()
	for b.Loop() {
		c.Next()
	}
}
