#!/usr/bin/env bash
# soft-roce-setup.sh: makes a Soft-RoCE (rxe) RDMA device on top of a network interface.
#
# Usage: soft-roce-setup.sh up [NETDEV]    make a device on NETDEV, or on the interface of the
#                                          default route; succeeds if it exists already
#        soft-roce-setup.sh down           remove the devices that `up` made on this machine
#        soft-roce-setup.sh status         show the module, each rxe device, its port and GIDs
#        soft-roce-setup.sh --help         this text
#
# `up` loads the module rdma_rxe, adds a link (rdma link add, Linux 5.1 or newer), and waits until the
# port is active and has a GID for the interface's address. If a step fails, or `up` is interrupted, it
# undoes the earlier steps. It notes each step in /run/soft-roce-setup before it takes it; like the
# devices, these notes do not survive a reboot. `down` follows the notes: it also removes what a killed
# `up` left, and keeps devices of others. Concurrent runs wait for each other. The interface must be up
# and have an address; the script changes neither.
#
# Needs root for up and down. Exit codes: 0 done (status: a device is active), 1 failed (status:
# none is), 2 wrong command line, 130 interrupted. Needs iproute2, kmod and util-linux, no other
# file of this project.
set -euo pipefail

NOTE=/run/soft-roce-setup  # one line per thing made: `module` or `link NAME NETDEV`
# What this run makes; set before it is made, so that an interrupt at any moment is undone.
SYS_IB=/sys/class/infiniband
MADE_LINK="" MADE_MODULE=""

say() { printf 'soft-roce-setup: %s\n' "$*"; }

# die MESSAGE STEP...: explains a failure and what to do, a line each.
die() {
  printf 'soft-roce-setup: %s\n' "$1" >&2
  shift
  (($# == 0)) || printf '  next: %s\n' "$@" >&2
  exit 1
}

usage_error() {
  printf 'soft-roce-setup: %s\n  next: %s --help\n' "$1" "$0" >&2
  exit 2
}

need_tools() {
  local tool
  PATH=$PATH:/usr/sbin:/sbin
  for tool in ip rdma modprobe flock; do
    command -v "$tool" >/dev/null || die "the program $tool is missing" \
      "apt-get install iproute2 kmod util-linux     # Debian and Ubuntu" \
      "dnf install iproute kmod util-linux          # Fedora and its kin"
  done
}

need_root() {
  ((EUID == 0)) || die "'$1' needs root: it loads a module and adds a device" "sudo $0 $*"
}

# take_turns: waits until no other run changes anything. The lock goes with this process.
take_turns() {
  exec 9<"${NOTE%/*}"
  flock -n 9 || { say "another run is at work, waiting for it"; flock 9; }
}

# forget LINE: takes a line out of the note.
forget() {
  local rest
  [[ -e $NOTE ]] || return 0
  rest=$(grep -vxF "$1" "$NOTE") || true
  if [[ -n $rest ]]; then printf '%s\n' "$rest" >"$NOTE"; else rm -f "$NOTE"; fi
}

# rxe_links: every rxe device as `NAME NETDEV`, one a line. Only rxe has a file named parent.
rxe_links() {
  local parent
  for parent in "$SYS_IB"/*/parent; do
    [[ -e $parent ]] || continue
    printf '%s %s\n' "$(basename "$(dirname "$parent")")" "$(<"$parent")"
  done
}

# link_on NETDEV: the name of the rxe device on NETDEV, or nothing.
link_on() { rxe_links | awk -v netdev="$1" '$2 == netdev { print $1; exit }'; }

# interfaces: the names of all network interfaces but lo, on one line.
interfaces() {
  ip -o link show | awk -F ': ' '$2 != "lo" { sub(/@.*/, "", $2); print $2 }' | xargs
}

# default_netdev: the interface of the preferred default route, IPv4 first.
default_netdev() {
  { ip -4 route show default; ip -6 route show default; } |
    awk '{ for (i = 1; i < NF; i++) if ($i == "dev") { print $(i + 1); exit } }'
}

# addresses NETDEV: its IPv4 and its global IPv6 addresses, one a line, without prefix length.
addresses() {
  ip -o addr show dev "$1" scope global | awk '{ sub(/\/.*/, "", $4); print $4 }'
}

choose_netdev() {
  NETDEV=${1:-$(default_netdev)}
  [[ -n $NETDEV ]] || die "there is no default route to tell which interface to use" \
    "$0 up NETDEV     # one of: $(interfaces)"
  [[ -e /sys/class/net/$NETDEV ]] || die "there is no network interface '$NETDEV'" \
    "$0 up NETDEV     # one of: $(interfaces)"
}

check_netdev() {
  local parent
  if [[ -e /proc/net/vlan/$NETDEV ]]; then
    parent=$(awk '$1 == "Device:" { print $2 }' "/proc/net/vlan/$NETDEV")
    die "$NETDEV is a VLAN: rxe works on the interface below it" "$0 up $parent"
  fi
  (($(<"/sys/class/net/$NETDEV/flags") & 1)) || die "interface $NETDEV is down" \
    "ip link set $NETDEV up" "then: $0 up $NETDEV"
  [[ -n $(addresses "$NETDEV") ]] ||
    die "interface $NETDEV has no IP address, so a device on it would have no usable GID" \
      "ip addr add 192.0.2.1/24 dev $NETDEV     # with an address of your network" \
      "then: $0 up $NETDEV"
}

# explain_module MESSAGE: why rdma_rxe could not be loaded, by the kind of system.
explain_module() {
  local release id=""
  release=$(uname -r)
  # shellcheck disable=SC1091
  id=$(. /etc/os-release 2>/dev/null && echo "${ID:-}") || true
  [[ $1 != *[Pp]ermitted* ]] || die "no permission to load rdma_rxe: $1" \
    "in a container: load it on the host: modprobe rdma_rxe" \
    "with Secure Boot: use the distribution's own signed kernel"
  [[ -d /lib/modules/$release ]] || die "there are no modules of the running kernel, $release" \
    "in a container: run this on the host" \
    "after a kernel update: reboot into the installed kernel"
  case $id:$release in
    ubuntu:*) die "the module rdma_rxe is missing for kernel $release: $1" \
      "apt-get install linux-modules-extra-$release" ;;
    debian:*-cloud-*) die "Debian's cloud kernel $release has no rdma_rxe" \
      "apt-get install linux-image-amd64, then boot that kernel instead of the cloud one" ;;
    *) die "the module rdma_rxe is missing for kernel $release: $1" \
      "install the package with the kernel's extra modules, such as linux-modules-extra-$release" \
      "or a kernel built with CONFIG_RDMA_RXE=m" ;;
  esac
}

load_module() {
  local message
  [[ ! -d /sys/module/rdma_rxe ]] || return 0
  MADE_MODULE=1
  echo module >>"$NOTE"
  message=$(modprobe rdma_rxe 2>&1) || explain_module "$(tail -n 1 <<<"$message")"
  [[ -d /sys/module/rdma_rxe ]] || explain_module "${message:-modprobe did nothing}"
}

# unload_module: false if it stays in use. Just after a device was deleted it still is for a while.
unload_module() {
  local tries
  for ((tries = 0; tries < 20; tries++)); do
    [[ -d /sys/module/rdma_rxe ]] || return 0
    ! modprobe -r rdma_rxe 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}

add_link() {
  local number=0 message
  while [[ -e $SYS_IB/rxe$number ]]; do number=$((number + 1)); done
  LINK=rxe$number MADE_LINK=rxe$number
  echo "link $LINK $NETDEV" >>"$NOTE"
  ! message=$(rdma link add "$LINK" type rxe netdev "$NETDEV" 2>&1) || return 0
  # A command that was killed may have made it all the same; then undo takes it back.
  if [[ $message == *xists* ]]; then
    MADE_LINK=""
    forget "link $LINK $NETDEV"
  fi
  case $message in
    *[Pp]ermitted*) die "no permission to add a device: $message" \
      "in a container: run this on the host, or give it --cap-add NET_ADMIN" ;;
    *nknown*type* | *"not supported"*) die "this kernel or rdma command cannot add rxe: $message" \
      "Linux 5.1 and iproute2 5.1 or newer are needed; here: $(uname -r), $(rdma -V)" ;;
    *) die "rdma link add $LINK type rxe netdev $NETDEV: $message" \
      "see what the kernel says: dmesg | tail" ;;
  esac
}

port_state() { awk '{ print $2 }' "$SYS_IB/$1/ports/1/state" 2>/dev/null; }

# gids LINK: the filled entries of the GID table, `INDEX GID TYPE` a line. Empty entries read as
# zeros, and their type cannot be read at all.
gids() {
  local dir=$SYS_IB/$1/ports/1 index gid type
  # Entries are filled from 0 up; a hole can be left by a removed address.
  for ((index = 0; index < 32; index++)); do
    gid=$(cat "$dir/gids/$index" 2>/dev/null) || break
    [[ -n ${gid//[0:]/} ]] || continue
    type=$(cat "$dir/gid_attrs/types/$index" 2>/dev/null) || type='?'
    printf '%s %s %s\n' "$index" "$gid" "$type"
  done
}

# usable_gid LINK: the first GID that is not link-local.
usable_gid() { gids "$1" | awk '$2 !~ /^fe80:/ { print; exit }'; }

# wait_until_usable: the port of a new link is active after some milliseconds, its GIDs follow.
wait_until_usable() {
  local tries
  for ((tries = 0; tries < 50; tries++)); do
    [[ $(port_state "$LINK") != ACTIVE || -z $(usable_gid "$LINK") ]] || return 0
    sleep 0.1
  done
  [[ $(port_state "$LINK") == ACTIVE ]] || die "the port of $LINK does not become active" \
    "check the cable or the peer of $NETDEV: ip link show $NETDEV     # wants LOWER_UP"
  die "$LINK has no GID for an address of $NETDEV ($(addresses "$NETDEV" | xargs))" \
    "ip addr show $NETDEV" "see what the kernel says: dmesg | tail"
}

# undo: takes back what this run made; the way out of `up` when it does not end well.
undo() {
  trap '' INT TERM HUP
  if [[ -n $MADE_LINK ]]; then
    # An interrupt may have come before it was made.
    ! grep -qxF "$MADE_LINK $NETDEV" <<<"$(rxe_links)" || rdma link delete "$MADE_LINK" || true
    forget "link $MADE_LINK $NETDEV"
  fi
  if [[ -n $MADE_MODULE ]]; then
    unload_module || printf '  note: %s\n' "the module rdma_rxe is in use and stays loaded" >&2
    forget module
  fi
  [[ -z $MADE_LINK$MADE_MODULE ]] || printf '  undone: %s\n' "what this try had made" >&2
}

# advise: what stands in the way of programs although the device is there.
advise() {
  local limit
  [[ -e /etc/libibverbs.d/rxe.driver ]] ||
    say "note: libibverbs has no rxe driver here: apt-get install ibverbs-providers"
  limit=$(ulimit -l)
  [[ $limit == unlimited || $limit -ge 65536 ]] || say "note: locked memory is limited to" \
    "$limit KiB: ulimit -l unlimited (or /etc/security/limits.conf; docker: --ulimit memlock=-1)"
}

up() {
  choose_netdev "$@"
  need_root up "$@"
  check_netdev
  take_turns
  trap undo EXIT
  LINK=$(link_on "$NETDEV")
  if [[ -n $LINK ]]; then
    wait_until_usable
    say "$LINK on $NETDEV is there already"
  else
    load_module
    add_link
    wait_until_usable
    say "made $LINK on $NETDEV"
  fi
  trap - EXIT
  say "GID $(usable_gid "$LINK" | sed 's/ / is /')"
  advise
}

# made_links: the links of the note that are still there, `NAME NETDEV` a line. A name that now
# belongs to another interface is somebody else's.
made_links() {
  [[ -e $NOTE ]] || return 0
  sed -n 's/^link //p' "$NOTE" | sort -u | grep -Fxf <(rxe_links) || true
}

down() {
  (($# == 0)) || usage_error "down takes no argument"
  need_root down
  take_turns
  local links name netdev
  links=$(made_links)
  while read -r name netdev; do
    [[ -n $name ]] || continue
    rdma link delete "$name" || die "could not remove $name" \
      "end the programs that use it: rdma resource show qp link $name/1"
    say "removed $name from $netdev"
  done <<<"$links"
  [[ -n $links ]] || say "nothing to remove"
  if grep -qx module "$NOTE" 2>/dev/null && [[ -z $(rxe_links) ]]; then
    unload_module || say "note: the module rdma_rxe is in use and stays loaded"
  fi
  rm -f "$NOTE"
  rxe_links | while read -r name netdev; do
    say "left alone: $name on $netdev, which somebody else made: rdma link delete $name"
  done
}

show_link() {
  local name=$1 netdev=$2 by=""
  ! made_links | grep -qx "$name $netdev" || by=", made by this script"
  printf '%s on %s: port %s%s\n' "$name" "$netdev" "$(port_state "$name")" "$by"
  printf '  addresses: %s\n' "$(addresses "$netdev" | xargs)"
  gids "$name" | sed 's/^/  gid /'
}

status() {
  (($# == 0)) || usage_error "status takes no argument"
  local name netdev active=1
  if [[ -d /sys/module/rdma_rxe ]]; then
    echo "module rdma_rxe: loaded, kernel $(uname -r)"
  else
    echo "module rdma_rxe: not loaded, kernel $(uname -r)"
  fi
  while read -r name netdev; do
    [[ -n $name ]] || continue
    show_link "$name" "$netdev"
    [[ $(port_state "$name") != ACTIVE ]] || active=0
  done <<<"$(rxe_links)"
  if ((active != 0)); then
    echo "no active rxe device"
    echo "  next: sudo $0 up"
  fi
  return "$active"
}

main() {
  local command=${1:-}
  (($# == 0)) || shift
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  case $command in
    up) (($# <= 1)) || usage_error "up takes one interface at most" ;;
    down | status) ;;
    --help | -h | help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" && exit ;;
    "") usage_error "up, down or status?" ;;
    *) usage_error "unknown command '$command'" ;;
  esac
  need_tools
  "$command" "$@"
}

main "$@"
