#!/usr/bin/env bash
# With 1 % and then 10 % of all packets lost in both directions of the link between two hosts,
# every READ, WRITE, CAS and FAA still gives the right result, and the kernel did drop packets. An atomic
# whose answer alone was lost gives its result or fails.
# nodes: 2
# tests: ./scripts/rxe-vm/hosts
# timeout: 420
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

# dropped: packets that netem has dropped on this side.
dropped() { tc -s qdisc show dev "$NETDEV" | sed -n 's/.*dropped \([0-9]*\).*/\1/p' | head -n 1; }
some_were_dropped() { (($(dropped) > 0)) || { tc -s qdisc show dev "$NETDEV" && return 1; }; }

# lossy PERCENT: the loss is on only while the tests run; results come home either way.
lossy() {
  check "loss_${1}_percent_is_set" tc qdisc replace dev "$NETDEV" root netem loss "$1%"
  check "loss_${1}_percent_keeps_results_right" \
    test_passes hosts.test TestLossyLinkKeepsResultsRight -test.timeout 100s
  check "loss_${1}_percent_was_real" some_were_dropped
  echo "$(dropped) packets dropped at $1 %"
  tc qdisc del dev "$NETDEV" root
}

check "lost_answers_of_atomics_are_noticed" \
  test_passes hosts.test TestLostAnswerOfAnAtomic -test.timeout 100s
lossy 1
lossy 10
story_ends
