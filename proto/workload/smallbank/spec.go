package smallbank

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/zipf"
)

// Options by name.
const (
	optAccounts    = "accounts"
	optHotAccounts = "hot-accounts"
	optHotAccess   = "hot-access"
	optTheta       = "theta"
	optDistributed = "distributed"
	optAnywhere    = "anywhere"
	optFar         = "far"
	optValueBytes  = "value-bytes"
	optBalanceKeys = "balance-keys"
)

// mostBytes of a value on a command line.
const mostBytes = 1 << 12

// Spec describes the workload.
func Spec() workload.Spec {
	d := Default(2)
	return workload.Spec{
		Name: "smallbank",
		Doc:  "bank customers with two accounts, six transactions (DrTM Table VII)",
		Options: option.List{
			option.Int(optAccounts, d.Accounts, minAccounts, maxAccounts, "`N` customers per node"),
			option.Float(optHotAccounts, d.HotAccounts, minHotAccounts, 1, "`SHARE` of the customers that are hot"),
			option.Float(optHotAccess, d.HotAccess, 0, 1, "`SHARE` of the accesses that go to hot customers"),
			option.Float(optTheta, 0, 0, zipf.MostTheta, "draw customers with Zipf `THETA`; 0: hot customers"),
			option.Float(optDistributed, d.Distributed, 0, 1, "probability `P` that the second customer of a payment or amalgamation "+
				"lives on another node; with one node: 0"),
			option.Bool(optAnywhere, false, "both customers of a transaction live on any node, with equal "+
				"probability, as in Xenic, HADES and Dandelion"),
			option.Float(optFar, 0, 0, 100, "`PERCENT` of the customers, the first ones of transactions included, live on "+
				"another node than the client; 0: see anywhere and distributed"),
			option.Int(optValueBytes, ValueBytes, ShortBytes, mostBytes, "`N` bytes per balance: 8 in DrTM and Dandelion, 4 in Xenic"),
			option.Int(optBalanceKeys, 2, 1, 2, "a balance reads `N` keys: 2, or 1 as in Dandelion"),
		},
		Remote: []string{optDistributed, optAnywhere, optFar},
		Transactions: []workload.Transaction{
			{Name: SendPayment.String(), Percent: 25, Doc: "moves 5.00 between two checking accounts"},
			{Name: Amalgamate.String(), Percent: 15, Doc: "moves all of a customer's money to another's " +
				"checking account"},
			{Name: Balance.String(), Percent: 15, ReadOnly: true, Doc: "reads both accounts of a customer"},
			{Name: DepositChecking.String(), Percent: 15, Doc: "pays 1.30 into a checking account"},
			{Name: WriteCheck.String(), Percent: 15, Doc: "takes 5.00 from a checking account, 6.00 if both " +
				"accounts do not cover it"},
			{Name: TransactSavings.String(), Percent: 15, Doc: "pays 20.20 into savings or takes it out"},
		},
		Tables: []workload.Table{{Name: "savings", Doc: "balance of a customer"},
			{Name: "checking", Doc: "balance of a customer"}},
		Verify:    "the money of all accounts is the initial money and what committed transactions paid in and out",
		Pieces:    pieces(),
		Functions: functions(),
		Words:     words,
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			if v.Bool(optAnywhere) && v.Given(optDistributed) {
				return nil, fmt.Errorf("smallbank: anywhere places both customers: leave distributed out")
			}
			if v.Float(optFar) > 0 && (v.Bool(optAnywhere) || v.Given(optDistributed)) {
				return nil, fmt.Errorf("smallbank: far places both customers: leave anywhere and distributed out")
			}
			b, err := New(optionsOf(nodes, v))
			if err != nil {
				return nil, err
			}
			return b, nil
		},
	}
}

func optionsOf(nodes int, v option.Values) Options {
	o := Default(nodes)
	o.Accounts, o.Distributed = v.Int(optAccounts), v.Float(optDistributed)
	o.HotAccounts, o.HotAccess, o.Theta = v.Float(optHotAccounts), v.Float(optHotAccess), v.Float(optTheta)
	o.ValueBytes, o.OneKeyBalance = v.Int(optValueBytes), v.Int(optBalanceKeys) == 1
	if v.Bool(optAnywhere) {
		o.PlaceAnywhere()
	}
	if far := v.Float(optFar); far > 0 {
		o.Anywhere, o.Distributed = far/100, far/100
	}
	return o
}

func words(nodes int, v option.Values) string {
	o := optionsOf(nodes, v)
	skew := fmt.Sprintf("%g %% of them get %g %% of the accesses", 100*o.HotAccounts, 100*o.HotAccess)
	if o.Theta != 0 {
		skew = fmt.Sprintf("Zipf %g", o.Theta)
	}
	where := fmt.Sprintf("%g %% of payments and amalgamations distributed", 100*o.Distributed)
	if v.Bool(optAnywhere) {
		where = "customers on any node"
	}
	if far := v.Float(optFar); far > 0 {
		where = fmt.Sprintf("%g %% of the customers on another node", far)
	}
	text := fmt.Sprintf("%d customers per node, %s, %s", o.Accounts, skew, where)
	if o.ValueBytes != ValueBytes {
		text += fmt.Sprintf(", balances of %d bytes", o.ValueBytes)
	}
	if o.OneKeyBalance {
		text += ", a balance reads one key"
	}
	return text
}
