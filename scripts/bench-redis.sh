#!/usr/bin/env bash
# bench-redis.sh: SmallBank on a local Redis beside SmallBank on drtmd, one core each.
#
# Usage: scripts/bench-redis.sh [ROUNDS]   default 3; about 20 seconds each
#
# Redis runs each transaction as a Lua script, one script at a time, so transactions are serializable.
# redis-benchmark, on another core, sends them over a Unix socket, 64 at a time on each of 16
# connections. drtmd runs the same mix with the same skew on one thread, in the process that draws the
# transactions. So the ratio compares a store inside a program with one behind a socket, not two engines.
#
# The script installs redis-server from the distribution. Its data stays in memory.
set -euo pipefail

# shellcheck source=scripts/lib/common.sh
. "$(dirname "$0")/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
. "$REPO/scripts/lib/packages.sh"
cd "$REPO"

CUSTOMERS=100000
TRANSACTIONS=300000
GOAL=20

# The transactions of proto/workload/smallbank, with DrTM's mix. ARGV are numbers below 10^9.
read -r -d '' SCRIPT <<'LUA' || true
local n, hot = 100000, 4000
local function customer(r)
  local q = math.floor(r / 10)
  if r % 10 < 9 then return q % hot end
  return hot + q % (n - hot)
end
local r = tonumber(ARGV[1])
local kind, up = r % 100, math.floor(r / 100) % 2 == 1
local a, b = customer(tonumber(ARGV[2])), customer(tonumber(ARGV[3]))
if a == b then b = (b + 1) % n end
local sa, ca, cb = 's' .. a, 'c' .. a, 'c' .. b
local get, set = function(k) return tonumber(redis.call('GET', k)) end,
  function(k, v) redis.call('SET', k, v) end
if kind < 25 then -- send payment
  local x, y = get(ca), get(cb)
  if x < 500 then return 0 end
  set(ca, x - 500); set(cb, y + 500)
elseif kind < 40 then -- amalgamate
  local sum = get(sa) + get(ca) + get(cb)
  set(sa, 0); set(ca, 0); set(cb, sum)
elseif kind < 55 then -- balance
  get(sa); get(ca)
elseif kind < 70 then -- deposit checking
  set(ca, get(ca) + 130)
elseif kind < 85 then -- write check
  local s, c = get(sa), get(ca)
  if s + c < 500 then set(ca, c - 600) else set(ca, c - 500) end
else -- transact savings
  local s = get(sa) + (up and 2020 or -2020)
  if s < 0 then return 0 end
  set(sa, s)
end
return 1
LUA

LOAD="for i = 0, $CUSTOMERS - 1 do
  redis.call('SET', 's' .. i, 1000000 + i * 7919 % 4000001)
  redis.call('SET', 'c' .. i, 1000000 + i * 104729 % 4000001)
end"

cli() { redis-cli -s "$DIR/socket" "$@"; }

# serve: a Redis of our own, with the accounts.
serve() {
  redis-server --port 0 --unixsocket "$DIR/socket" --save '' --appendonly no --dir "$DIR" \
    --daemonize no --loglevel warning >"$DIR/log" 2>&1 &
  SERVER=$!
  local i
  for ((i = 0; i < 100; i++)); do
    cli PING >/dev/null 2>&1 && break
    sleep 0.05
  done
  ((i < 100)) || die "redis-server does not answer: $(tail -n 1 "$DIR/log")"
  cli EVAL "$LOAD" 0 >/dev/null
  SHA=$(cli SCRIPT LOAD "$SCRIPT")
}

# redis_rate: transactions per second of one measurement.
redis_rate() {
  local random=__rand_int__
  redis-benchmark -s "$DIR/socket" -c 16 -P 64 -n "$TRANSACTIONS" -r 1000000000 --csv \
    EVALSHA "$SHA" 0 "$random" "$random" "$random" |
    awk -F '","|",|,"|"' 'END { print $(NF > 3 ? 3 : 2) }'
}

drtmd_rate() {
  bin/drtmd bench --nodes 1 --threads 1 --accounts "$CUSTOMERS" --warmup 500ms --duration 3s \
    --log-level error | awk '$1 == "all" { print $2 + $8 }'
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

finish() {
  [[ -z ${SERVER:-} ]] || kill "$SERVER" 2>/dev/null || true
  rm -rf "$DIR"
}

main() {
  [[ ${1:-} != --help ]] || { print_help "$0" && exit 0; }
  local n=${1:-3} i ours theirs
  [[ $n =~ ^[1-9][0-9]{0,2}$ ]] || usage_error "ROUNDS is a number from 1 to 999"
  need_drtmd
  need_packages redis-server redis-tools
  DIR=$(mktemp -d)
  trap finish EXIT
  serve
  for ((i = 1; i <= n; i++)); do
    say "round $i of $n"
    redis_rate >>"$DIR/redis"
    drtmd_rate >>"$DIR/drtmd"
  done
  theirs=$(median <"$DIR/redis")
  ours=$(median <"$DIR/drtmd")
  printf 'SmallBank, %s customers, one core, transactions/s, medians of %s rounds\n' "$CUSTOMERS" "$n"
  printf '  %-56s %12.0f\n' "drtmd, DrTM in the process that draws the transactions" "$ours"
  printf '  %-56s %12.0f\n' "$(redis-server --version | awk '{ print "Redis " $3 }'), Lua scripts over a Unix socket" "$theirs"
  awk -v a="$ours" -v b="$theirs" -v goal="$GOAL" 'BEGIN {
    printf "  %-56s %12.1f  goal: at least %d\n", "ratio, in-process against a socket", a / b, goal }'
}

main "$@"
