#!/usr/bin/env bash
# Every protocol that runs on several threads runs both workloads on Soft-RoCE, on three nodes:
# every run is strictly serializable by its history, and its sums are conserved. TPC-C runs whole and in
# pieces, and its twelve conditions hold. Then three daemons that keep TPC-C's tables in files are killed all
# at once in the middle of a run: they come back with their tables, and the same holds.
# timeout: 420
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

# proved COMMAND...: a bench is, and commits something. Shows what it says.
proved() {
  local output status=0
  output=$("$@" 2>&1) || status=$?
  printf 'status %s\n%s\n' "$status" "$output"
  ((status == 0)) && [[ $output == *"sums conserved: yes"* ]] &&
    [[ $output =~ "strictly serializable: yes ("[1-9] ]]
}

# serializable FLAG...: a bench of three nodes in one process with these flags is.
serializable() {
  proved drtmd bench --transport ibv --nodes 3 --fibers 4 --warmup 300ms --duration 2s --check "$@"
}

# conditions COMMAND...: a bench of TPC-C is, and the conditions hold.
conditions() {
  local status=0
  proved "$@" >/tmp/tpcc || status=1
  cat /tmp/tpcc
  ((status == 0)) && grep -q "^verified: the twelve consistency conditions" /tmp/tpcc
}

tpcc=(--workload tpcc --items 200 --customers 30 --orders 3000 --remote-items 10)

for protocol in drtm twopl twopl-local; do
  check "smallbank_on_$protocol" serializable --protocol "$protocol" --accounts 2000 \
    --distributed 0.2
  check "micro_on_$protocol" serializable --protocol "$protocol" --workload micro --keys 64 \
    --distributed 0.3
done
for chopped in false true; do
  check "tpcc_on_drtm_chopped_$chopped" conditions drtmd bench --transport ibv --nodes 3 --fibers 4 \
    --warmup 300ms --duration 2s --check "${tpcc[@]}" --chopped="$chopped"
done

# Kept tables, in files of tmpfs.
kept=("${tpcc[@]}" --durable=true --chopped=true --workers 1 --fibers 2)
DRTMD_TRANSPORT_KEEP_DIR=/tmp/kept
export DRTMD_TRANSPORT_KEEP_DIR
mkdir -p /tmp/kept
up() { drtmd up --nodes 3 --transport ibv --dir /tmp/up --lease 20s --detach "${kept[@]/#--/--data-}"; }
run() { drtmd bench --cluster up:/tmp/up --warmup 300ms --check "${kept[@]}" "$@"; }

# is_killed: all daemons at once, in the middle of a run.
is_killed() {
  local pids
  run --duration 60s >/tmp/run 2>&1 &
  eventually 120 says "measuring, " cat /tmp/run || return 1
  sleep 1
  mapfile -t pids < <(cat /tmp/up/node*/pid)
  kill -9 "${pids[@]}"
  wait $! || true
}

check daemons_with_kept_tables_start up
check all_are_killed is_killed
check all_come_back up
check their_tables_came_back conditions run --duration 2s
check their_logs_were_read says "last recovery" drtmd status --cluster up:/tmp/up
check cluster_stops drtmd down --dir /tmp/up
story_ends
