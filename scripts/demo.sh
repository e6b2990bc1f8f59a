#!/usr/bin/env bash
# demo.sh: what make demo shows: four daemons run SmallBank with three copies of each record; one daemon is
# killed in the middle; the others go on, and the run is proved strictly serializable.
#
# Usage: scripts/demo.sh            after make build; about 20 s
#
# The report is bin/demo-report/report.html: its plot over time has the dip. `scripts/demo.sh run` is for the
# command itself: drtmd up runs it, with the addresses of the daemons in DRTMD_ADDRESS.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
cd "$REPO"

# kill_node N: kill -9 of a daemon, when clients are measured. Its process id is in its folder.
kill_node() {
  local folder=${DRTMD_ADDRESS#unix:}
  folder=${folder%%/node0/*}
  until grep -q '"phase": "measuring"' <<<"$(bin/drtmd status --json 2>/dev/null)"; do sleep 0.2; done
  sleep 1
  say "killing node $1"
  kill -9 "$(<"$folder/node$1/pid")"
}

run() {
  kill_node 2 &
  bin/drtmd bench --cluster up --protocol drtmh --replicas 3 --accounts 20000 --distributed 0.2 --warmup 200ms \
    --duration 6s --check --report bin/demo-report
  wait
}

case ${1:-} in
  --help | -h) print_help "$0" ;;
  run) run ;;
  "") need_drtmd && bin/drtmd up --nodes 4 --lease 2s --accounts 1000 -- "$0" run ;;
  *) usage_error "unknown argument '$1'" ;;
esac
