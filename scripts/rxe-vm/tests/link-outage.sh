#!/usr/bin/env bash
# A link that goes away for a while during a run loses nothing: the members of one process, whose
# device has its interface taken down, are connected again in the run; updates are made, locks
# released, sums hold, and the history is strictly serializable.
# timeout: 300
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

OUTPUT=/work/outage.out
OUTAGES=/work/outages # a line for each outage that is over

# outages SECONDS...: once clients run, the interface is down for each of these times, 2 s after the
# one before.
outages() {
  local span
  until grep -q measuring "$OUTPUT"; do sleep 0.2; done
  for span in "$@"; do
    ip link set "$NETDEV" down
    sleep "$span"
    ip link set "$NETDEV" up
    echo "$span s" >>"$OUTAGES"
    sleep 2
  done
}

# outlives PROTOCOL DURATION SECONDS...: a run of so long with these outages, all of which are over before it ends.
outlives() {
  local protocol=$1 duration=$2 pid status=0
  shift 2
  : >"$OUTPUT"
  : >"$OUTAGES"
  outages "$@" &
  pid=$!
  /work/drtmd bench --transport ibv --nodes 2 --protocol "$protocol" --accounts 1000 --fibers 4 \
    --distributed 0.3 --duration "$duration" --warmup 300ms --check >"$OUTPUT" 2>&1 || status=$?
  kill "$pid" 2>/dev/null # it has ended, unless the run never began
  wait "$pid"
  ip link set "$NETDEV" up
  printf 'status %s, outages: %s\n' "$status" "$(paste -sd, "$OUTAGES")"
  cat "$OUTPUT"
  ((status == 0)) && (($(wc -l <"$OUTAGES") == $#)) && grep -q "sums conserved: yes" "$OUTPUT" &&
    grep -q "strictly serializable: yes" "$OUTPUT"
}

check "drtm_outlives_an_outage_of_2_s" outlives drtm 6s 2
check "twopl_outlives_an_outage_of_2_s" outlives twopl 6s 2
check "drtm_outlives_short_and_long_outages" outlives drtm 16s 0.2 4 1
story_ends
