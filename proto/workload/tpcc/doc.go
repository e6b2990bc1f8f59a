// Package tpcc is TPC-C (revision 5.11) with all five transactions, as DrTM runs it (§8.1, Table VII): without
// terminals, keying and thinking times, every transaction as one.
//
// # Tables
//
// The nine tables have the rows of clause 1.3 and the sizes of clause 4.2.2. Columns that every Payment changes,
// and the next order number, are in records of their own, as clause 1.4.7 allows: else a new order would be in the
// way of every payment.
//
//	warehouse        83 bytes   name, address, tax
//	warehouse-ytd     8         W_YTD
//	district         83         ten of a warehouse
//	district-ytd      8         D_YTD
//	district-next     4         D_NEXT_O_ID
//	customer        655         3,000 of a district
//	customer-name     8         ordered: by last and first name, to C_ID; nobody changes it
//	history          46         of payments
//	order            24
//	order-customer    8         ordered: the orders of a customer
//	new-order         8         ordered
//	order-line       54         ordered
//	item             82         100,000 on every node
//	stock           306         one of an item and warehouse
//
// # Keys
//
// A warehouse has a number from 0, those of node n from n times the warehouses of a node on.
//
//	63       48 47  44 43          20 19  16 15       0
//	+----------+------+--------------+------+----------+
//	| warehouse|distr.|  order 24    | line |   zero   |   order, new-order, order-line, district...
//	| warehouse|distr.| customer 24  |      zero       |   customer
//	| warehouse|distr.| customer 20 |    order 24      |   order-customer
//	| warehouse|distr.| last name 10 | rank 10 | C_ID 24 |  customer-name
//	| warehouse|           zero 24          | item 24  |   stock
//	| warehouse|  client 16  |        number 32        |   history
//
// A last name is its number of clause 4.3.2.3, and the rank is that of the first name among those of the last name.
//
// # Transactions, in percent of the mix (clause 5.2.3, DrTM's Table VII)
//
//	new-order 45      5 to 15 lines, 1 % of the items of another warehouse; 1 % is rolled back for an unused item
//	payment 43        15 % by a customer of another warehouse, 60 % by last name
//	order-status 4    a customer's newest order, 60 % by last name; read-only
//	delivery 4        the oldest order of each of the ten districts
//	stock-level 4     stock of the items of the last 20 orders; read-only
//
// What a transaction needs and only the database knows (the next order, who has a name, the oldest order) is found
// by a look before it (DrTM §7.4), and checked in it. customer-name is never changed, so that a look is enough
// (§4.3).
//
// # Deviations
//
//   - With Options.Anywhere no transaction has a home: its warehouse, and those of its items and of its paying customer, are
//     any of the cluster's, and an item is a record of one node. So are the records of HADES, distributed uniformly over
//     all nodes (§VII there).
//   - Items of an order differ, so that a record stands in a declaration once.
//   - A client has one warehouse, and the district of its stock-level, as a terminal has. Dates are numbers.
//   - Delivery is executed at once, and all districts in one transaction (clause 2.7.2 would defer it).
//   - With fewer items or customers than 100,000 and 3,000, NURand's A is smaller in proportion, and with fewer than
//     1,000 customers there are as many last names.
//
// # What is checked
//
// The twelve conditions of clause 3.3.2, and that the stock's S_YTD is what the order lines say (Inspect). Condition
// 11 counts orders that were delivered since loading, too. Condition 10, and the one on the stock, are about
// records of several nodes: each node gives a weighted sum, which is 0 over all nodes.
package tpcc
