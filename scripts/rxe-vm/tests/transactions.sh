#!/usr/bin/env bash
# Every protocol that runs on several threads runs both workloads on Soft-RoCE, on three nodes:
# every run is strictly serializable by its history, and its sums are conserved.
# timeout: 240
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

# serializable FLAG...: a bench with these flags is, and commits something.
serializable() {
  local output status=0
  output=$(drtmd bench --transport ibv --nodes 3 --fibers 4 --warmup 500ms --duration 4s --check \
    "$@" 2>&1) || status=$?
  ((status == 0)) && [[ $output == *"sums conserved: yes"* ]] &&
    [[ $output =~ "strictly serializable: yes ("([1-9][0-9]*) ]] &&
    echo "${BASH_REMATCH[1]} transactions" && return 0
  printf 'status %s\n%s\n' "$status" "$output"
  return 1
}

for protocol in drtm twopl twopl-local; do
  check "smallbank_on_$protocol" serializable --protocol "$protocol" --accounts 2000 \
    --distributed 0.2
  check "micro_on_$protocol" serializable --protocol "$protocol" --workload micro --keys 64 \
    --distributed 0.3
done
story_ends
