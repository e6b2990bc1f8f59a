// Package admin is a node's admin port: metrics for Prometheus, health, profiles, the status as
// JSON, and a live page. It is plain HTTP without authentication, for a trusted network. It binds to
// loopback unless the configuration names an address, accepts only GET and HEAD, and changes nothing.
//
//	/             the live page
//	/live.json    the data of the page: the status and the last minutes
//	/status.json  schema drtmd.status/1
//	/metrics      docs/METRICS.md
//	/healthz      200 while the daemon is alive
//	/readyz       200 while the node serves, else 503 with the reason
//	/debug/pprof  for clients on loopback, and for others if admin.pprof is true
//
// The collector and docs/METRICS.md are made from one list of metrics. Scrapes and the page's samples read
// a worker's counters on the worker's thread. The page is a self-contained template whose scripts draw
// live.json. However many pages are open, the node asks the cluster at most once a second.
package admin
