#!/usr/bin/env bash
# Three hosts, one daemon each, form a cluster over TLS on Soft-RoCE and run SmallBank, which is
# proved strictly serializable. In the middle of another run one host dies; the other two report it
# within two membership leases, finish the run, say that a node was lost, and serve on.
# nodes: 3
# copy: scripts/rxe-vm/tests/lib/daemons.sh
# timeout: 420
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

# shellcheck source=scripts/rxe-vm/tests/lib/daemons.sh
. /work/daemons.sh

lease=10
certificates
daemon "$lease"

reports_3() { says "partition of node 3 (node3, incarnation" drtmd status; }
# without_3: the active view is one of two members.
without_3() { says ", 2 members" drtmd status; }
check cluster_forms shown eventually 150 ready 3
check daemon_says_ready eventually 30 says READY cat /tmp/serve.out
check stranger_is_refused exits 1 env -u DRTMD_CONTROL_CA -u DRTMD_CONTROL_CERT \
  -u DRTMD_CONTROL_KEY drtmd status

# loses_node_3: a run in which node 3 dies ends, exits with 1 and says so.
loses_node_3() {
  local status
  eventually 150 [ -e /tmp/run.status ]
  status=$(cat /tmp/run.status)
  ((status == 1)) && grep -q 'sums conserved: unknown: .*node' /tmp/bench && return 0
  printf 'status %s\n' "$status"
  cat /tmp/bench
  return 1
}

case $NODE in
  1)
    check smallbank_is_strictly_serializable shown proved --duration 3s
    check ready_after_the_run shown eventually 90 ready 3
    rm /tmp/bench
    left run bench --duration 20s &
    check second_run_measures shown eventually 90 says 'measuring, ' cat /tmp/bench
    tell die
    check loss_is_reported_within_two_leases shown eventually $((2 * lease)) reports_3
    check view_without_node_3 shown eventually 60 without_3
    check run_ends_without_node_3 shown loses_node_3
    check two_serve_on shown eventually 90 ready 2
    tell all-done
    # Node 2 needs the registry that this node embeds until it has left.
    check node_2_leaves_in_order shown eventually 90 ready 1
    ;;
  2)
    eventually 300 told die
    check loss_is_reported_within_two_leases shown eventually $((2 * lease)) reports_3
    check view_without_node_3 shown eventually 60 without_3
    check two_serve_on shown eventually 200 told all-done
    ;;
  3)
    eventually 300 told die
    emulator_dies
    ;;
esac
check drains_on_sigterm shown drains
story_ends
