#!/usr/bin/env bash
# A link that goes away during a run of daemons loses nothing: two daemons in one guest, whose control
# plane (unix sockets, etcd on loopback) does not go over the interface that is taken down. Updates are
# made, locks released, sums hold, the history is strictly serializable, and no node is lost, for drtm
# and twopl. An outage that outlasts the run is reported, with what was measured, and exit code 1; the
# cluster serves again after it.
# timeout: 300
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

OUTPUT=/work/outage.out

# outages SECONDS...: once clients run, the interface is down for each of these times, 2 s after the
# one before.
outages() {
  local span
  until grep -q measuring "$OUTPUT"; do sleep 0.2; done
  for span in "$@"; do
    ip link set "$NETDEV" down
    sleep "$span"
    ip link set "$NETDEV" up
    sleep 2
  done
}

# run PROTOCOL DURATION SECONDS...: a run of so long with these outages; its exit code in STATUS.
run() {
  local protocol=$1 duration=$2 pid
  shift 2
  : >"$OUTPUT"
  outages "$@" &
  pid=$!
  STATUS=0
  drtmd bench --cluster up --protocol "$protocol" --accounts 1000 --fibers 4 --distributed 0.3 \
    --duration "$duration" --warmup 300ms --check >"$OUTPUT" 2>&1 || STATUS=$?
  kill "$pid" 2>/dev/null # it has ended, unless the run never began or has ended in an outage
  wait "$pid"
  ip link set "$NETDEV" up
  printf 'status %s\n' "$STATUS"
  cat "$OUTPUT"
}

outlives() {
  run "$@"
  ((STATUS == 0)) && grep -q "sums conserved: yes" "$OUTPUT" &&
    grep -q "strictly serializable: yes" "$OUTPUT"
}

# reports PROTOCOL: a run that ends in an outage says what it measured and that it is not settled.
reports() {
  run "$1" 4s 60
  ((STATUS == 1)) && grep -q "^sums conserved: unknown: .*the sums cannot be judged" "$OUTPUT" &&
    grep -q "^all .*[1-9]" "$OUTPUT"
}

check cluster_forms drtmd up --nodes 2 --transport ibv --accounts 1000 --detach
check drtm_outlives_outages_of_2_s_and_200_ms outlives drtm 7s 2 0.2
check twopl_outlives_an_outage_of_4_s outlives twopl 8s 4
check an_outage_to_the_end_is_reported reports drtm
check cluster_serves_again eventually 60 drtmd status
check drtm_runs_after_it outlives drtm 2s
check cluster_stops drtmd down
story_ends
