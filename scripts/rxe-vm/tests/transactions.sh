#!/usr/bin/env bash
# Every protocol that runs on several threads runs both workloads on Soft-RoCE, on three nodes:
# every run is strictly serializable by its history, and its sums are conserved. TPC-C runs whole and in
# pieces, and its twelve conditions hold.
# timeout: 300
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
  proved drtmd bench --transport ibv --nodes 3 --fibers 4 --warmup 500ms --duration 4s --check "$@"
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
    --warmup 500ms --duration 4s --check "${tpcc[@]}" --chopped="$chopped"
done
story_ends
