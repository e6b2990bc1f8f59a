// Package admin is a node's admin port: metrics for Prometheus, health, profiles, the status as
// JSON, and a live page. It is plain HTTP for people and scrapers of the own network: it binds to
// loopback unless an address is named, takes only GET and HEAD, and changes nothing.
//
//	/             the live page
//	/live.json    what the page draws: status and the last minutes
//	/status.json  schema drtmd.status/1
//	/metrics      docs/METRICS.md
//	/healthz      200 while the daemon is alive
//	/readyz       200 while the node serves, else 503 with the reason
//	/debug/pprof  for clients on loopback, unless asked for otherwise
//
// One list of metrics makes the collector and docs/METRICS.md. A scrape and the page's samples look at
// the workers on their own threads. The page is a template that stands alone, with scripts that draw
// live.json, of which the cluster is asked once a second at most, however many poll.
package admin
