#!/usr/bin/env bash
# A memory node and clients in other processes, on Soft-RoCE: a B-link tree on repairable transactions (rTX) under
# YCSB A, E and F, each run proved strictly serializable. Then a client process is killed in the middle of a run; the
# next run repairs what it left, and is proved, too. RACE, and the baseline DTX, run on memory nodes of their own, in
# the process of their clients. (Optimal, and RACE under D, run in testdata/script/memory.txt of package cli.) In the
# end, two memory nodes share the records.
# timeout: 240
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

at=127.0.0.1:7480
drtmd serve --role memory --transport ibv --memory-listen "$at" --memory-size 16MiB --memory-clients 4 \
  --memory-fibers 4 >/tmp/serve.out 2>&1 &
server=$!

# A bench of two clients on the memory node.
clients=(drtmd bench --memory "$at" --transport ibv --protocol rtx --index sherman --workload ycsb --keys 200 --nodes 2
  --fibers 4 --warmup 500ms)

# proved FLAG...: a bench with these flags commits something, and is strictly serializable.
proved() { proved_for 2s "$@"; }

# proved_for TIME FLAG...: likewise, for a time.
proved_for() {
  local output status=0 time=$1
  shift
  output=$("${clients[@]}" --duration "$time" --check "$@" 2>&1) || status=$?
  ((status == 0)) && [[ $output == *"sums conserved: yes"* ]] &&
    [[ $output =~ "strictly serializable: yes ("([1-9][0-9]*) ]] && return 0
  printf 'status %s\n%s\n' "$status" "$output"
  return 1
}

# is_killed: a bench is killed while it measures.
is_killed() {
  local bench
  "${clients[@]}" --duration 60s >/tmp/killed.out 2>&1 &
  bench=$!
  eventually 60 says 'measuring, ' cat /tmp/killed.out || return 1
  kill -9 "$bench"
  wait "$bench" 2>/dev/null
  return 0
}

check memory_node_is_ready eventually 30 says READY cat /tmp/serve.out
for letter in A E F; do
  check "ycsb_${letter}_is_strictly_serializable" proved --letter "$letter"
done
check two_processes_are_strictly_serializable proved --processes 2
check client_is_killed is_killed
check next_run_repairs_and_is_proved eventually 60 proved
# A process in the background of a script ignores SIGINT.
kill -TERM "$server"
wait "$server"
status=$?
check memory_node_ends_on_sigterm test "$status" = 0
# Others run in testdata/script/memory.txt of package cli, in the guest of the test binaries.
for system in "rtx race A" "dtx sherman A"; do
  read -r protocol index letter <<<"$system"
  clients=(drtmd bench --transport ibv --protocol "$protocol" --index "$index" --workload ycsb --letter "$letter"
    --keys 60 --nodes 2 --fibers 4 --warmup 100ms)
  check "${protocol}_${index}_${letter}_is_strictly_serializable" proved_for 1500ms
done

servers=()
for number in 1 2; do
  drtmd serve --role memory --transport ibv --memory-listen "127.0.0.1:748$number" --memory-number "$number/2" \
    --memory-size 8MiB --memory-clients 4 --memory-fibers 4 >"/tmp/serve-$number.out" 2>&1 &
  servers+=($!)
done
clients=(drtmd bench --memory "127.0.0.1:7481,127.0.0.1:7482" --transport ibv --protocol rtx --index sherman
  --workload ycsb --letter A --keys 60 --nodes 2 --fibers 4 --warmup 100ms)
for number in 1 2; do
  check "memory_node_${number}_of_2_is_ready" eventually 30 says READY cat "/tmp/serve-$number.out"
done
check two_memory_nodes_are_strictly_serializable proved_for 1500ms
check client_of_two_memory_nodes_is_killed is_killed
check next_run_on_two_is_proved eventually 60 proved_for 1500ms
kill -TERM "${servers[@]}"
wait "${servers[@]}"
status=$?
check memory_nodes_end_on_sigterm test "$status" = 0
story_ends
