package smallbank

import "drtmd/proto"

// transaction is a proto.Program with its parameters.
type transaction struct {
	kind   Kind
	a, b   proto.Key
	amount int64 // TransactSavings: what is added
	// delta is what the last execution changed the bank's money by, if it is committed; shown is the customer's
	// balance.
	delta, shown int64
	// v are the buffers of the balances, oneKey that a balance reads savings only.
	v      [3][]byte
	oneKey bool
}

// Execute runs the transaction's code.
func (t *transaction) Execute(tx proto.Txn) error {
	t.delta = 0
	switch t.kind {
	case SendPayment:
		return t.sendPayment(tx)
	case Amalgamate:
		return t.amalgamate(tx)
	case Balance:
		return t.balance(tx)
	case DepositChecking:
		return t.depositChecking(tx)
	case WriteCheck:
		return t.writeCheck(tx)
	}
	return t.transactSavings(tx)
}

// newTransaction makes one with balances of so many bytes.
func newTransaction(valueBytes int, oneKey bool) transaction {
	t := transaction{oneKey: oneKey}
	for i := range t.v {
		t.v[i] = make([]byte, valueBytes)
	}
	return t
}

// write stores a balance. One that has no room rolls the transaction back.
func (t *transaction) write(tx proto.Txn, table proto.TableID, k proto.Key, i int, b int64) error {
	if !fits(t.v[i], b) {
		return proto.ErrRollback
	}
	putBalance(t.v[i], b)
	return tx.Write(table, k, t.v[i])
}

// sendPayment moves 5.00 between checking accounts, if the sender has them.
func (t *transaction) sendPayment(tx proto.Txn) error {
	if err := tx.GetForUpdate(Checking, t.a, t.v[0]); err != nil {
		return err
	}
	if err := tx.GetForUpdate(Checking, t.b, t.v[1]); err != nil {
		return err
	}
	from, to := balance(t.v[0]), balance(t.v[1])
	if from < paymentAmount {
		return proto.ErrRollback
	}
	if err := t.write(tx, Checking, t.b, 1, to+paymentAmount); err != nil {
		return err
	}
	return t.write(tx, Checking, t.a, 0, from-paymentAmount)
}

// amalgamate moves all of one customer's money to another's checking account.
func (t *transaction) amalgamate(tx proto.Txn) error {
	if err := tx.GetForUpdate(Savings, t.a, t.v[0]); err != nil {
		return err
	}
	if err := tx.GetForUpdate(Checking, t.a, t.v[1]); err != nil {
		return err
	}
	if err := tx.GetForUpdate(Checking, t.b, t.v[2]); err != nil {
		return err
	}
	sum := balance(t.v[0]) + balance(t.v[1]) + balance(t.v[2])
	if err := t.write(tx, Checking, t.b, 2, sum); err != nil {
		return err
	}
	if err := t.write(tx, Savings, t.a, 0, 0); err != nil {
		return err
	}
	return t.write(tx, Checking, t.a, 1, 0)
}

// balance reads both accounts of a customer, or savings only.
func (t *transaction) balance(tx proto.Txn) error {
	if err := tx.Read(Savings, t.a, t.v[0]); err != nil {
		return err
	}
	t.shown = balance(t.v[0])
	if t.oneKey {
		return nil
	}
	if err := tx.Read(Checking, t.a, t.v[1]); err != nil {
		return err
	}
	t.shown += balance(t.v[1])
	return nil
}

// depositChecking adds 1.30.
func (t *transaction) depositChecking(tx proto.Txn) error {
	if err := tx.GetForUpdate(Checking, t.a, t.v[0]); err != nil {
		return err
	}
	t.delta = depositAmount
	return t.write(tx, Checking, t.a, 0, balance(t.v[0])+depositAmount)
}

// writeCheck takes 5.00 from the checking account, and 1.00 more if both accounts together do
// not cover it.
func (t *transaction) writeCheck(tx proto.Txn) error {
	if err := tx.Read(Savings, t.a, t.v[0]); err != nil {
		return err
	}
	if err := tx.GetForUpdate(Checking, t.a, t.v[1]); err != nil {
		return err
	}
	amount := int64(checkAmount)
	if balance(t.v[0])+balance(t.v[1]) < amount {
		amount += penaltyAmount
	}
	t.delta = -amount
	return t.write(tx, Checking, t.a, 1, balance(t.v[1])-amount)
}

// transactSavings adds to the savings, or takes from them what they cover.
func (t *transaction) transactSavings(tx proto.Txn) error {
	if err := tx.GetForUpdate(Savings, t.a, t.v[0]); err != nil {
		return err
	}
	b := balance(t.v[0]) + t.amount
	if b < 0 {
		return proto.ErrRollback
	}
	t.delta = t.amount
	return t.write(tx, Savings, t.a, 0, b)
}
