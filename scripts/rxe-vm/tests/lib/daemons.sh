# shellcheck shell=bash
# daemons.sh: a daemon on each guest of a story, over TLS and on Soft-RoCE. A story that sources it
# has `# copy: scripts/rxe-vm/tests/lib/daemons.sh`, calls `certificates`, then `daemon`, and in the
# end `drains`.

first=10.77.0.1 certs=/tmp/certs board=/tmp/board
export DRTMD_ADDRESS=$NODE_ADDR:7440 DRTMD_CONTROL_CA=$certs/ca.pem \
  DRTMD_CONTROL_CERT=$certs/node$NODE.pem DRTMD_CONTROL_KEY=$certs/node$NODE.key

# What has happened is told as files on a board of node 1, by HTTP: the network is the test's.
tell() { touch "$board/$1"; }
get() { timeout 5 wget -q -O "$2" "http://$first/$1"; } # busybox crashes of -T
told() { get "$1" /dev/null; }
fetch() { get "$1" "$certs/$1" && chmod 600 "$certs/$1"; }

# certificates: node 1 makes them, and hands each node its own.
certificates() {
  local n file
  if ((NODE == 1)); then
    mkdir -p "$board"
    for ((n = 1; n <= NODES; n++)); do
      check "certificate_for_node_$n" drtmd certs "$certs" --name "node$n" --host "10.77.0.$n"
    done
    cp "$certs"/{ca.pem,node*} "$board/"
    httpd -p "$first:80" -h "$board"
    return
  fi
  mkdir -p "$certs"
  for file in ca.pem "node$NODE.pem" "node$NODE.key"; do
    check "gets_$file" eventually 60 fetch "$file"
  done
}

# A check cannot wait for children of the story: each leaves its exit status in a file.
left() { "${@:2}"; echo $? >"/tmp/$1.status"; }

# daemon LEASE: starts drtmd serve with a membership lease of so many seconds. The settings that
# differ come first, then those of all nodes.
daemon() {
  local flags=(--control-listen "$DRTMD_ADDRESS" --transport-provider ibv --transport-device rxe0
    --node-id "$NODE" --node-name "node$NODE" --node-state-dir /tmp/state --cluster-lease "${1}s"
    --admin-listen off --data-accounts 1000 --data-fibers 4)
  if ((NODE == 1)); then flags+=(--cluster-etcd-listen "$first:7442"); else
    flags+=(--cluster-join "$first:7440"); fi
  # shellcheck disable=SC2016 # expanded by the inner shell
  left serve bash -c 'echo $$ >/tmp/pid && exec drtmd serve "$@"' - "${flags[@]}" \
    >/tmp/serve.out 2>/tmp/serve.err &
}

log() { cat /tmp/serve.out; grep -v '"logger":"etcd"' /tmp/serve.err | tail -n 25; }
# shown COMMAND...: the command; the daemon's log as well if it did not succeed.
shown() { "$@" || { log && return 1; }; }

# ready N: the cluster has N members, and all of them serve.
ready() {
  local output
  output=$(drtmd status 2>&1)
  [[ $output == *", $1 members"* && $(grep -c '^[0-9].* ready ' <<<"$output") == "$1" ]] && return 0
  printf '%s\n' "$output"
  return 1
}

bench() {
  drtmd bench --cluster "$DRTMD_ADDRESS" --accounts 1000 --fibers 4 --distributed 0.2 \
    --warmup 1s "$@" >/tmp/bench 2>&1
}

# proved FLAG...: a run of SmallBank is strictly serializable and its sums are conserved.
proved() {
  local status=0
  bench "$@" --check || status=$?
  ((status == 0)) && grep -q 'sums conserved: yes' /tmp/bench &&
    grep 'strictly serializable: yes ([1-9]' /tmp/bench && return 0
  printf 'status %s\n' "$status"
  cat /tmp/bench
  return 1
}

# drains: SIGTERM ends the daemon in order.
drains() {
  kill -TERM "$(cat /tmp/pid)"
  eventually 60 [ -e /tmp/serve.status ] && says 0 cat /tmp/serve.status
}
