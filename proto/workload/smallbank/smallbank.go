// Package smallbank is the SmallBank benchmark: bank customers with a savings and a checking
// account each, and six transactions on them.
//
// # What it follows
//
// The mix is that of DrTM Table VII: send payment 25 %, amalgamate, balance, deposit checking,
// withdraw (write check) and transact savings 15 % each. Only send payment and amalgamate, which
// involve two customers, can be distributed; with probability Options.Distributed their second
// customer lives on another node. The first one always lives on the client's node.
//
// Amounts and rules are H-Store's: a payment of 5.00 that the sender's checking account does not
// cover is rolled back, and so is a withdrawal from savings of 20.20 that these do not cover; a
// check of 5.00 that both accounts together do not cover costs a penalty of 1.00 more and
// overdraws the checking account; a deposit is 1.30. Two things differ. Amalgamate moves all the
// money of the first customer to the checking account of the second, as Alomari et al. (ICDE
// 2008) define it; H-Store's program makes up money. Transact savings deposits as often as it
// withdraws; H-Store only withdraws, after which most savings are empty.
//
// The papers do not state how keys are chosen. The default is what DrTM's evaluation is known to
// use: 100,000 customers per node, and 90 % of the accesses go to 4 % of them.
//
// # Keys and values
//
//	key     node 16 bits | customer of the node 48 bits
//	value   balance in cents, 8 bytes, signed, in the machine's byte order
//
// Xenic has objects of 12 bytes, which are a key of 8 and a balance of 4; Dandelion has 8 and 8. With
// Options.ValueBytes below 8 a balance has 4 bytes, and a transaction that would make one that does not
// fit, which is more than 21 million, is rolled back. Larger values are padded.
//
// # Other papers' readings
//
// Xenic, HADES and Dandelion place customers anywhere (Anywhere), and Dandelion's balance reads one key
// (Options.OneKeyBalance), without which its counts of messages do not come out.
//
// # What is checked
//
// The money in all accounts is what was there in the beginning, and what committed deposits and
// withdrawals changed.
package smallbank

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// Tables.
const (
	Savings  proto.TableID = 1
	Checking proto.TableID = 2
)

// ValueBytes is the size of a balance, unless Options say otherwise; ShortBytes is the least.
const (
	ValueBytes = 8
	ShortBytes = 4
)

// Kinds of transactions: Decl.Kind.
type Kind uint8

const (
	SendPayment Kind = iota + 1
	Amalgamate
	Balance
	DepositChecking
	WriteCheck
	TransactSavings
	kindEnd // one past the last
)

func (k Kind) String() string {
	return [...]string{"send-payment", "amalgamate", "balance", "deposit-checking", "write-check",
		"transact-savings"}[k-1]
}

// Mix is the share of each kind, in percent, in their order.
type Mix [kindEnd - 1]int

// TableVII is the mix of DrTM Table VII.
func TableVII() Mix { return Mix{25, 15, 15, 15, 15, 15} }

// Options of New. The zero value is completed by Default.
type Options struct {
	Nodes       int
	Accounts    int     // customers per node
	HotAccounts float64 // share of the customers that are hot
	HotAccess   float64 // share of the accesses that go to these
	Theta       float64 // of Zipf; above 0 it takes the place of the hot set
	Distributed float64 // probability that a second customer lives on another node
	// Anywhere is the probability that the first customer lives on another node, so that every
	// kind of transaction can be remote; 0 in DrTM. Papers that place accounts anywhere have
	// (Nodes-1)/Nodes for both.
	Anywhere float64
	// ValueBytes of each account; 0 = ValueBytes.
	ValueBytes int
	// OneKeyBalance has a balance read the savings only, as Dandelion's does.
	OneKeyBalance bool
	Mix           Mix
}

// PlaceAnywhere has both customers of each transaction live on any node, with equal probability.
func (o *Options) PlaceAnywhere() {
	o.Anywhere = float64(o.Nodes-1) / float64(o.Nodes)
	o.Distributed = o.Anywhere
}

// Default gives the options that DrTM's evaluation is known to use, for a cluster of a size.
func Default(nodes int) Options {
	return Options{Nodes: nodes, Accounts: 100_000, HotAccounts: 0.04, HotAccess: 0.90,
		Distributed: 0.01, Mix: TableVII()}
}

// Limits.
const (
	minAccounts = 2
	maxAccounts = 1 << 30
	maxNodes    = 1 << 16
	// minHotAccounts is the least share of hot customers that a command line may ask for; one customer is
	// always hot.
	minHotAccounts = 1e-9
)

// Amounts in cents.
const (
	minBalance     = 10_000_00
	maxBalance     = 50_000_00
	depositAmount  = 1_30
	paymentAmount  = 5_00
	checkAmount    = 5_00
	penaltyAmount  = 1_00
	transactAmount = 20_20
)

// Bank is the workload.
type Bank struct {
	o    Options
	pick picker
	mix  [100]Kind
	far  uint32 // threshold of a 32-bit draw for Options.Distributed
	// anywhere is that for Options.Anywhere.
	anywhere uint32
}

// New checks the options and makes the workload.
func New(o Options) (*Bank, error) {
	if o.ValueBytes == 0 {
		o.ValueBytes = ValueBytes
	}
	b := &Bank{o: o}
	switch {
	case o.ValueBytes < ShortBytes:
		return nil, fmt.Errorf("smallbank: balances of %d bytes: take %d or more", o.ValueBytes, ShortBytes)
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return nil, fmt.Errorf("smallbank: %d nodes are not in 1..%d", o.Nodes, maxNodes)
	case o.Accounts < minAccounts || o.Accounts > maxAccounts:
		return nil, fmt.Errorf("smallbank: %d accounts per node are not in %d..%d", o.Accounts,
			minAccounts, maxAccounts)
	case !(o.Distributed >= 0 && o.Distributed <= 1):
		return nil, fmt.Errorf("smallbank: probability %v of distributed transactions is not in "+
			"0..1", o.Distributed)
	case !(o.Anywhere >= 0 && o.Anywhere <= 1):
		return nil, fmt.Errorf("smallbank: probability %v of remote customers is not in 0..1",
			o.Anywhere)
	case (o.Distributed > 0 || o.Anywhere > 0) && o.Nodes == 1:
		return nil, fmt.Errorf("smallbank: distributed transactions need two nodes; with one, the " +
			"probability must be 0")
	}
	var err error
	if b.pick, err = newPicker(&o); err != nil {
		return nil, err
	}
	n := 0
	for k, share := range o.Mix {
		if share < 0 || n+share > 100 {
			return nil, fmt.Errorf("smallbank: the mix %v does not add up to 100 %%", o.Mix)
		}
		for range share {
			b.mix[n] = SendPayment + Kind(k)
			n++
		}
	}
	if n != 100 {
		return nil, fmt.Errorf("smallbank: the mix %v adds up to %d %%", o.Mix, n)
	}
	b.far, b.anywhere = threshold(o.Distributed), threshold(o.Anywhere)
	return b, nil
}

// Name is "smallbank".
func (b *Bank) Name() string { return "smallbank" }

// Options are those that it was made with.
func (b *Bank) Options() Options { return b.o }

// Tables are the savings and the checking accounts.
func (b *Bank) Tables() []proto.TableSpec {
	return []proto.TableSpec{
		{ID: Savings, Name: "savings", ValueBytes: b.o.ValueBytes, Capacity: b.o.Accounts},
		{ID: Checking, Name: "checking", ValueBytes: b.o.ValueBytes, Capacity: b.o.Accounts}}
}

// Kinds names the transactions.
func (b *Bank) Kinds() []string {
	var names []string
	for k := SendPayment; k < kindEnd; k++ {
		names = append(names, k.String())
	}
	return names
}

// nodeShift is where the node stands in a key.
const nodeShift = 48

// KeyOf is the key of both accounts of a customer of a node.
func KeyOf(node proto.NodeID, customer int) proto.Key {
	return proto.Key(node)<<nodeShift | proto.Key(customer)
}

// Placement reads the node off the key.
func (b *Bank) Placement() proto.Placement { return placement{} }

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> nodeShift)}
}

// Load gives each account of a node between 10,000.00 and 50,000.00, which depends on its key.
func (b *Bank) Load(node proto.NodeID,
	put func(t proto.TableID, k proto.Key, value []byte) error) error {
	v := make([]byte, b.o.ValueBytes)
	for c := range b.o.Accounts {
		k := KeyOf(node, c)
		for t := Savings; t <= Checking; t++ {
			putBalance(v, initial(t, k))
			if err := put(t, k, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// initial is the first balance of an account: its key, scrambled by SplitMix64's finalizer.
func initial(t proto.TableID, k proto.Key) int64 {
	x := uint64(k)*2 + uint64(t)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return minBalance + int64(x%(maxBalance-minBalance+1))
}

// NewClient makes a client.
func (b *Bank) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	return newClient(b, home, r)
}

// Sums names the one sum.
func (b *Bank) Sums() []string { return []string{"money in cents"} }

// Check adds up the money of a node.
func (b *Bank) Check(node proto.NodeID, at workload.Contents) (first, last workload.Quantities, err error) {
	v := make([]byte, b.o.ValueBytes)
	for c := range b.o.Accounts {
		k := KeyOf(node, c)
		for t := Savings; t <= Checking; t++ {
			if err := at.Read(t, k, v); err != nil {
				return first, last, fmt.Errorf("account %d of node %d, table %d: %w", c, node, t, err)
			}
			first[0] += initial(t, k)
			last[0] += balance(v)
		}
	}
	return first, last, nil
}

func balance(v []byte) int64 {
	if len(v) < ValueBytes {
		return int64(int32(binary.NativeEndian.Uint32(v)))
	}
	return int64(binary.NativeEndian.Uint64(v))
}

func putBalance(v []byte, b int64) {
	if len(v) < ValueBytes {
		binary.NativeEndian.PutUint32(v, uint32(b))
		return
	}
	binary.NativeEndian.PutUint64(v, uint64(b))
}

// fits reports whether a value has room for a balance.
func fits(v []byte, b int64) bool { return len(v) >= ValueBytes || b == int64(int32(b)) }
