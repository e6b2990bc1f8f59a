# shellcheck shell=bash
# guests.sh: starts a run's guests, waits for their exit status, ends them. Sourced by run.
#
# In: RUN (the run's own folder), BASE, KERNEL_IMAGE, NODES, TIMEOUT, MEMORY, APPEND. Guests touch
# nothing outside RUN, so any number of runs can go on at once.

# Exit statuses of our own, chosen as timeout(1) and env(1) do.
EXIT_TIMEOUT=124
EXIT_GUEST_DIED=125

PIDS=()      # of our qemu processes, by node - 1
PRINTERS=()  # of what prints a node's output, by node - 1
PAUSED=()    # how often a node was paused, by node - 1
PAUSE=2      # seconds that a pause lasts

# nic NODE: the network card of a node, as qemu arguments. Node 1 holds a hub that the others
# plug into over unix sockets; a lone guest has no card and uses a veth pair.
nic() {
  local node=$1 peer mac
  ((NODES > 1)) || return 0
  printf -v mac '52:54:00:4d:00:%02x' "$node"
  if ((node > 1)); then
    printf '%s\n' -netdev "stream,id=up,server=off,addr.type=unix,addr.path=$RUN/net-$node" \
      -device "virtio-net-pci,netdev=up,mac=$mac,romfile="
    return
  fi
  for ((peer = 2; peer <= NODES; peer++)); do
    printf '%s\n' -netdev "stream,id=s$peer,server=on,addr.type=unix,addr.path=$RUN/net-$peer" \
      -netdev "hubport,id=h$peer,hubid=0,netdev=s$peer"
  done
  printf '%s\n' -netdev hubport,id=up,hubid=0 \
    -device "virtio-net-pci,netdev=up,mac=$mac,romfile="
}

# port NUMBER FILE: one of the three serial ports of guest/init.
port() {
  printf '%s\n' -chardev "file,id=c$1,path=$2" -device "virtserialport,chardev=c$1,nr=$1"
}

# tsc_rate: the rate of the TSC, as an argument of a guest's kernel, if this host's kernel log has it. The TSC of an
# emulated guest is the host's. A guest that measures the rate while it boots measures wrongly if the host is busy
# just then: the clock of one ran 2.5 times as fast as those of others.
tsc_rate() {
  dmesg 2>/dev/null |
    sed -nE 's/.* tsc: (Detected|Refined TSC clocksource calibration:) ([0-9]+)\.([0-9]{3}) MHz.*/tsc_early_khz=\2\3/p' | tail -n 1
}

# start_guest NODE: boots one node and the process that prints its output.
start_guest() {
  local node=$1 files=$RUN/$1 args
  mkfifo "$files.output" "$files.monitor.in" "$files.monitor.out"
  if ((NODES > 1)); then
    stdbuf -oL sed "s/^/[$node] /" <"$files.output" &
  else
    cat <"$files.output" &
  fi
  PRINTERS+=($!)
  mapfile -t args < <(nic "$node"; port 1 "$files.output"; port 2 "$files.out.tar"
    port 3 "$files.status")
  cat "$BASE" "$RUN/files.cpio" "$files.cpio" >"$files.initrd"
  # The guest ends with this script, whatever ends it.
  setpriv --pdeathsig KILL -- qemu-system-x86_64 -nodefaults -no-user-config -display none \
    -machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m "$MEMORY" -no-reboot \
    -kernel "$KERNEL_IMAGE" -initrd "$files.initrd" \
    -append "console=ttyS0 quiet panic=-1 oops=panic mitigations=off tsc=reliable no_timer_check cryptomgr.notests $(tsc_rate) $APPEND" \
    -chardev "file,id=console,path=$files.console" -serial chardev:console \
    -chardev "pipe,id=monitor,path=$files.monitor" -mon chardev=monitor,mode=readline \
    -device virtio-serial-pci "${args[@]}" </dev/null >"$files.qemu" 2>&1 &
  PIDS+=($!)
}

start_guests() {
  local node
  for ((node = 1; node <= NODES; node++)); do
    start_guest "$node"
    ((node > 1 || NODES == 1)) || wait_for_hub
  done
}

# wait_for_hub: until node 1 listens; a node that comes too early would not try again.
wait_for_hub() {
  local tries
  for ((tries = 0; tries < 1200; tries++)); do
    [[ ! -S $RUN/net-$NODES ]] || return 0
    kill -0 "${PIDS[0]}" 2>/dev/null || break
    sleep 0.05
  done
  cat "$RUN/1.qemu" >&2
  die "qemu did not open its network socket" \
    "see its message above; -netdev stream needs QEMU 7.2 or newer: qemu-system-x86_64 --version"
}

# report_dead NODE: why a guest ended without a status. A kernel says first what happened and then
# prints stacks of any length: the lines that say it are shown whatever comes after.
report_dead() {
  local files=$RUN/$1
  say "node $1 ended before its command did; the end of its console:"
  tr -d '\r' <"$files.console" 2>/dev/null | awk '
    { lines[NR] = $0 }
    !first && /Kernel panic|BUG:|Oops|general protection fault|Out of memory/ { first = NR }
    END {
      from = NR > 40 ? NR - 39 : 1
      if (first && first < from) {
        for (i = first; i < first + 5 && i < from; i++) print lines[i]
        if (i < from) print "..."
      }
      for (i = from; i <= NR; i++) print lines[i]
    }' | sed 's/^/  | /' >&2
  sed 's/^/  qemu: /' "$files.qemu" >&2
}

# node_status NODE: prints the exit status once the node has one, `kill`: see lose_power, or `pause`:
# see pause.
node_status() {
  local status="" line pauses=0
  while read -r line; do
    status=$line
    [[ $line != pause ]] || pauses=$((pauses + 1))
  done 2>/dev/null <"$RUN/$1.status"
  if [[ -n $status ]] && { [[ $status != pause ]] || ((pauses > ${PAUSED[$1 - 1]:-0})); }; then
    printf '%s\n' "$status"
    return 0
  fi
  kill -0 "${PIDS[$1 - 1]}" 2>/dev/null && return 1
  report_dead "$1"
  printf '%s\n' "$EXIT_GUEST_DIED"
}

# lose_power NODE: ends the emulator of a guest that has asked for that, in the midst of what it does.
lose_power() {
  kill -KILL "${PIDS[$1 - 1]}"
  wait "${PIDS[$1 - 1]}" 2>/dev/null || true
}

# pause NODE: stops a guest that has asked for that, with its clock, as a hypervisor does.
pause() {
  PAUSED[$1 - 1]=$((${PAUSED[$1 - 1]:-0} + 1))
  echo stop 1<>"$RUN/$1.monitor.in" # never blocks, also if the emulator is gone
  sleep "$PAUSE"
  echo cont 1<>"$RUN/$1.monitor.in"
}

# wait_for_guests: until every node has a status, or the time is over; sets RESULT to the first
# status that is not 0. Once a node has failed, the others get ten more seconds.
wait_for_guests() {
  local node status deadline=$((SECONDS + TIMEOUT)) waiting=() still
  RESULT=0
  for ((node = 1; node <= NODES; node++)); do waiting+=("$node"); done
  while ((${#waiting[@]} > 0)); do
    still=()
    for node in "${waiting[@]}"; do
      if ! status=$(node_status "$node"); then
        still+=("$node")
      elif [[ $status == kill ]]; then
        lose_power "$node"
      elif [[ $status == pause ]]; then
        pause "$node"
        still+=("$node")
      elif ((status != 0 && RESULT == 0)); then
        RESULT=$status
        ((deadline <= SECONDS + 10)) || deadline=$((SECONDS + 10))
      fi
    done
    waiting=("${still[@]}")
    ((SECONDS < deadline)) || break
    sleep 0.1
  done
  ((${#waiting[@]} == 0 || RESULT != 0)) || time_is_over
}

time_is_over() {
  RESULT=$EXIT_TIMEOUT
  say "stopped after $TIMEOUT s without an exit status; the end of node ${waiting[0]}'s console:"
  tail -n 20 "$RUN/${waiting[0]}.console" | tr -d '\r' | sed 's/^/  | /' >&2
  printf '  next: give it longer with --timeout SECONDS\n' >&2
}

# end_guests: ends our own qemu processes, and waits until their output is printed.
end_guests() {
  if ((${#PIDS[@]} > 0)); then
    kill -KILL "${PIDS[@]}" 2>/dev/null || true
    # Waiting here keeps bash from announcing each of them as killed.
    wait "${PIDS[@]}" 2>/dev/null || true
    wait "${PRINTERS[@]}" 2>/dev/null || true
  fi
  PIDS=() PRINTERS=()
}

# save_results DIR: unpacks what each node left in /out into DIR (DIR/NODE with several).
save_results() {
  local node dir
  for ((node = 1; node <= NODES; node++)); do
    dir=$1
    ((NODES == 1)) || dir=$1/$node
    mkdir -p "$dir"
    [[ ! -s $RUN/$node.out.tar ]] || tar -x --no-same-owner -C "$dir" -f "$RUN/$node.out.tar"
  done
}
