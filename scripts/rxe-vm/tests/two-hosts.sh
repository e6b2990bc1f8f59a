#!/usr/bin/env bash
# Two hosts, whose clocks are not one, serve DrTM by the recipe of docs/CLUSTER.md: runs are proved,
# with leases of a given length too, and status says how well the second knows the first's clock.
# Then the second is paused, as by a hypervisor: it finds that its clock stood still, says so,
# comes back as a new incarnation, and one more run is proved.
# nodes: 2
# copy: scripts/rxe-vm/tests/lib/daemons.sh
# timeout: 300
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh
# shellcheck source=scripts/rxe-vm/tests/lib/daemons.sh
. /work/daemons.sh

certificates
daemon 10

# anew: node 2 is a member as another incarnation than its first one, which was 2.
anew() {
  local output
  output=$(drtmd status 2>&1)
  grep '^2 .* ready ' <<<"$output" | grep -qv '^2 *node2 *ready *2 ' && return 0
  printf '%s\n' "$output"
  return 1
}

check cluster_forms shown eventually 150 ready 2
case $NODE in
  1)
    check status_says_whose_clock shown says " of node 1's (expected: " drtmd status
    drtmd status | grep ' clock '
    check a_run_is_proved shown proved --duration 3s
    check ready_after_the_run shown eventually 90 ready 2
    check leases_of_a_length_are_proved shown proved --duration 3s --lease 200ms
    check ready_after_that shown eventually 90 ready 2
    tell pause
    check node_2_starts_anew shown eventually 90 anew
    check two_serve_again shown eventually 90 ready 2
    check a_run_after_it_is_proved shown proved --duration 3s
    tell all-done
    check node_2_leaves_in_order shown eventually 90 ready 1
    ;;
  2)
    eventually 200 told pause
    emulator_pauses
    check clock_that_stood_still_is_named shown \
      eventually 60 says "this node's clock contradicts that of the leader" cat /tmp/serve.err
    grep -o "this node's clock contradicts[^\"]*" /tmp/serve.err | head -n 1
    check waits_for_the_end shown eventually 200 told all-done
    ;;
esac
check drains_on_sigterm shown drains
story_ends
