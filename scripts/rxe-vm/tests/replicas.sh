#!/usr/bin/env bash
# Every protocol that replicates runs on Soft-RoCE with three copies of each record, on three nodes: every run
# is strictly serializable by its history, its sums are conserved, and the copies of each record are equal.
# timeout: 420
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

# serializable FLAG...: a bench with these flags is, commits something, and has equal replicas; its report has the words
# of SAYS, if there are any.
serializable() {
  local output status=0
  output=$(drtmd bench --transport ibv --nodes 3 --replicas 3 --fibers 4 --warmup 200ms --check "$@" 2>&1) ||
    status=$?
  ((status == 0)) && [[ $output == *"sums conserved: yes"* && $output == *"replicas equal: yes"* && $output == *"${SAYS:-}"* ]] &&
    [[ $output =~ "strictly serializable: yes ("[1-9] ]] && return 0
  printf 'status %s\n%s\n' "$status" "$output"
  return 1
}

check smallbank_on_farm serializable --protocol farm --accounts 1000 --anywhere --duration 3s
check micro_on_drtmh serializable --protocol drtmh --workload micro --keys 64 --distributed 0.3 --duration 3s
for protocol in fasst drtmh-nc drtm-occ drtmr drtmr-verbs dnl4 dnl2 dnl1; do
  check "smallbank_on_$protocol" serializable --protocol "$protocol" --accounts 1000 --anywhere --duration 1s
done
for protocol in dnl4 dnl2 dnl1; do
  check "tatp_on_$protocol" serializable --protocol "$protocol" --workload tatp --subscribers 500 --duration 1s
  check "ycsb_on_$protocol" serializable --protocol "$protocol" --workload ycsb --keys 1000 --duration 1s
done
# A worker of each node plays its NIC.
check smallbank_on_xenic serializable --protocol xenic --workers 2 --accounts 500 --anywhere --duration 1s
check retwis_on_xenic serializable --protocol xenic --workload retwis --keys 1000 --duration 1s
# TPC-C is scaled down, and says by how much.
SAYS='200 items (scale 0.002), 30 customers per district (scale 0.01)' \
  check tpcc_on_xenic serializable --protocol xenic --workload tpcc --items 200 --customers 30 --orders 2000 --duration 1s
story_ends
