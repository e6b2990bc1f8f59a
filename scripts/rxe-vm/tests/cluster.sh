#!/usr/bin/env bash
# Three hosts, one daemon each, form a cluster over TLS on Soft-RoCE and run SmallBank, which is
# proved strictly serializable. In the middle of another run one host dies; the other two report it
# within two membership leases, finish the run, say that a node was lost, and serve on.
# nodes: 3
# timeout: 420
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

first=10.77.0.1 lease=10 certs=/tmp/certs board=/tmp/board
export DRTMD_ADDRESS=$NODE_ADDR:7440 DRTMD_CONTROL_CA=$certs/ca.pem \
  DRTMD_CONTROL_CERT=$certs/node$NODE.pem DRTMD_CONTROL_KEY=$certs/node$NODE.key

# Node 1 makes the certificates, and hands each node its own by HTTP: the network is the test's.
# What has happened is told in the same way, as files on a board.
if ((NODE == 1)); then
  mkdir -p "$board"
  for n in 1 2 3; do
    check "certificate_for_node_$n" drtmd certs "$certs" --name "node$n" --host "10.77.0.$n"
  done
  cp "$certs"/{ca.pem,node*} "$board/"
  httpd -p "$first:80" -h "$board"
fi
tell() { touch "$board/$1"; }
get() { timeout 5 wget -q -O "$2" "http://$first/$1"; } # busybox crashes of -T
told() { get "$1" /dev/null; }
fetch() { get "$1" "$certs/$1" && chmod 600 "$certs/$1"; }
if ((NODE > 1)); then
  mkdir -p "$certs"
  for file in ca.pem "node$NODE.pem" "node$NODE.key"; do
    check "gets_$file" eventually 60 fetch "$file"
  done
fi

# The settings that differ, then those of all nodes.
flags=(--control-listen "$DRTMD_ADDRESS" --transport-provider ibv --transport-device rxe0
  --node-id "$NODE" --node-name "node$NODE" --node-state-dir /tmp/state --cluster-lease "${lease}s"
  --admin-listen off --data-accounts 1000 --data-fibers 4)
if ((NODE == 1)); then flags+=(--cluster-etcd-listen "$first:7442"); else
  flags+=(--cluster-join "$first:7440"); fi
# A check cannot wait for children of the story: each leaves its exit status in a file.
left() { "${@:2}"; echo $? >"/tmp/$1.status"; }
left serve bash -c 'echo $$ >/tmp/pid && exec drtmd serve "$@"' - "${flags[@]}" \
  >/tmp/serve.out 2>/tmp/serve.err &

log() { cat /tmp/serve.out; grep -v '"logger":"etcd"' /tmp/serve.err | tail -n 25; }
# ready N: the cluster has N members, and all of them serve.
ready() {
  local output
  output=$(drtmd status 2>&1)
  [[ $output == *", $1 members"* && $(grep -c '^[0-9].* ready ' <<<"$output") == "$1" ]] && return 0
  printf '%s\n' "$output"
  return 1
}
reports_3() { says "partition of node 3 (node3, incarnation" drtmd status; }
# without_3: the active view is one of two members.
without_3() { says ", 2 members" drtmd status; }
# shown COMMAND...: the command; the daemon's log as well if it did not succeed.
shown() { "$@" || { log && return 1; }; }

check cluster_forms shown eventually 150 ready 3
check daemon_says_ready eventually 30 says READY cat /tmp/serve.out
check stranger_is_refused exits 1 env -u DRTMD_CONTROL_CA -u DRTMD_CONTROL_CERT \
  -u DRTMD_CONTROL_KEY drtmd status

bench() {
  drtmd bench --cluster "$DRTMD_ADDRESS" --accounts 1000 --fibers 4 --distributed 0.2 \
    --warmup 1s "$@" >/tmp/bench 2>&1
}
# proved: SmallBank on three hosts is strictly serializable and its sums are conserved.
proved() {
  local status=0
  bench --duration 5s --check || status=$?
  ((status == 0)) && grep -q 'sums conserved: yes' /tmp/bench &&
    grep 'strictly serializable: yes ([1-9]' /tmp/bench && return 0
  printf 'status %s\n' "$status"
  cat /tmp/bench
  return 1
}
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
    check smallbank_is_strictly_serializable shown proved
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
drains() {
  kill -TERM "$(cat /tmp/pid)"
  eventually 60 [ -e /tmp/serve.status ] && says 0 cat /tmp/serve.status
}
check drains_on_sigterm shown drains
story_ends
