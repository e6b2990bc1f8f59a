package smallbank

import "drtmd/proto/chop"

// pieces declares the operations of the transactions, with the default options.
func pieces() *chop.Workload {
	op := func(name, table string, m chop.Mode, after ...string) chop.Op {
		return chop.Op{Name: name, Accesses: []chop.Access{{Of: table, Mode: m}}, After: after}
	}
	aborts := func(o chop.Op) chop.Op { o.Aborts = true; return o }
	const savings, checking = "savings", "checking"
	return &chop.Workload{Transactions: []chop.Transaction{
		{Name: SendPayment.String(), Short: "SP", Ops: []chop.Op{
			aborts(op("C", checking, chop.Write)), op("C2", checking, chop.Add, "C")}},
		{Name: Amalgamate.String(), Short: "AMG", Ops: []chop.Op{
			op("S", savings, chop.Write), op("C", checking, chop.Write), op("C2", checking, chop.Add, "S", "C")}},
		{Name: Balance.String(), Short: "BAL", ReadOnly: true, Ops: []chop.Op{
			op("S", savings, chop.Read), op("C", checking, chop.Read)}},
		{Name: DepositChecking.String(), Short: "DC", Ops: []chop.Op{op("C", checking, chop.Add)}},
		{Name: WriteCheck.String(), Short: "WC", Ops: []chop.Op{
			op("S", savings, chop.Read), op("C", checking, chop.Write, "S")}},
		{Name: TransactSavings.String(), Short: "TS", Ops: []chop.Op{aborts(op("S", savings, chop.Write))}},
	}}
}
