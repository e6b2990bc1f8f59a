#!/usr/bin/env bash
# soft-roce-setup.sh does what it says on a fresh machine, explains each obstacle, and leaves
# nothing behind when it fails.
# nodes: 1
# rxe: no
# timeout: 300
# copy: soft-roce-setup.sh
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

setup=/work/soft-roce-setup.sh
no_links() { [[ $(rdma link show) == "" ]]; }
no_module() { [[ ! -d /sys/module/rdma_rxe ]]; }
one_link() { [[ $(rdma link show | wc -l) == 1 && $(rdma link show) == *"netdev $1"* ]]; }
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }
without_capability() { setpriv --bounding-set "-$1" --inh-caps "-$1" -- "${@:2}"; }

# Wrong command lines.
check help_teaches says "soft-roce-setup.sh up [NETDEV]" $setup --help
check help_exits_0 exits 0 $setup --help
check no_command_exits_2 exits 2 $setup
check unknown_command_exits_2 exits 2 $setup start
check two_interfaces_exit_2 exits 2 $setup up veth0 veth1
check down_takes_no_argument exits 2 $setup down veth0

# Before anything is set up.
check status_without_device_exits_1 exits 1 $setup status
check status_names_the_next_step says "up" $setup status
check down_without_up_is_success exits 0 $setup down

# Obstacles, each with what to do.
check no_default_route_lists_interfaces says "one of: veth" $setup up
check unknown_interface_lists_interfaces says "no network interface 'eth9'" $setup up eth9
check unknown_interface_exits_1 exits 1 $setup up eth9
check no_address_is_explained says "ip addr add" $setup up veth1
check no_address_exits_1 exits 1 $setup up veth1
ip link set veth0 down
check down_interface_is_explained says "ip link set veth0 up" $setup up veth0
ip link set veth0 up
check no_privilege_is_explained says "sudo $setup up veth0" as_nobody $setup up veth0
check no_privilege_exits_1 exits 1 as_nobody $setup up veth0
check status_needs_no_privilege says "no active rxe device" as_nobody $setup status
check nothing_was_loaded_so_far no_module

# A module that is not there.
mv "/lib/modules/$(uname -r)" /lib/modules/away
check missing_modules_are_explained says "no modules of the running kernel" $setup up veth0
mkdir "/lib/modules/$(uname -r)"
check missing_module_is_explained says "linux-modules-extra-$(uname -r)" $setup up veth0
rmdir "/lib/modules/$(uname -r)"
mv /lib/modules/away "/lib/modules/$(uname -r)"

# A failure half way takes back what was done.
check link_refused_is_explained says "--cap-add NET_ADMIN" \
  without_capability net_admin $setup up veth0
check failure_leaves_no_link no_links
check failure_leaves_no_module no_module
ip link add veth2 type veth peer name veth3
ip addr add 10.78.0.1/24 dev veth2
ip link set veth2 up
check dead_port_is_explained says "does not become active" $setup up veth2
check dead_port_leaves_no_link no_links
check dead_port_leaves_no_module no_module

# Ended just after the device was made: by a signal, which undoes it, and by kill -9, after which
# down cleans up. (Not by SIGINT: stories start with it ignored.) The rdma of this folder does the
# work and then ends who called it.
mkdir /work/ending
cat >/work/ending/rdma <<'EOF'
#!/bin/bash
PATH=${PATH#/work/ending:}
rdma "$@" || exit
[[ $1:$2 != link:add ]] || kill "-$SIGNAL" "$((SETUP ? SETUP : $$))"
EOF
chmod +x /work/ending/rdma
ended_by() {
  SIGNAL=$1 PATH=/work/ending:$PATH bash -c 'export SETUP=$$; exec "$0" up veth0' "$setup"
}
# ended_by_child: the command that makes the device dies once it has.
ended_by_child() {
  SIGNAL=KILL PATH=/work/ending:$PATH bash -c 'export SETUP=0; exec "$0" up veth0' "$setup"
}
no_note() { [[ ! -e /run/soft-roce-setup ]]; }
check terminated_up_exits_143 exits 143 ended_by TERM
check terminated_up_leaves_no_link no_links
check terminated_up_leaves_no_module no_module
check hung_up_up_exits_129 exits 129 ended_by HUP
check hung_up_up_leaves_no_link no_links
modprobe rdma_rxe
check killed_rdma_exits_1 exits 1 ended_by_child
check killed_rdma_leaves_no_link no_links
modprobe -r rdma_rxe
check ended_up_leaves_no_note no_note
check killed_up_dies exits 137 ended_by KILL
check killed_up_leaves_the_link one_link veth0
check up_after_kill_says_so says "there already" $setup up veth0
check down_after_kill_succeeds exits 0 $setup down
check down_after_kill_left_no_link no_links
check down_after_kill_left_no_module no_module

# Two at once wait for each other and make one device.
at_once() {
  local first second status=0
  $setup up veth0 & first=$!
  $setup up veth0 & second=$!
  wait "$first" || status=$?
  wait "$second" || status=$?
  return "$status"
}
check two_at_once_succeed exits 0 at_once
check two_at_once_made_one_link one_link veth0
check down_after_two_succeeds exits 0 $setup down
check down_after_two_left_no_link no_links

# The way it is meant.
check up_succeeds exits 0 $setup up veth0
check up_made_one_link one_link veth0
check up_again_says_so says "there already" $setup up veth0
check up_again_made_no_other one_link veth0
check status_shows_the_port says "rxe0 on veth0: port ACTIVE, made by this script" $setup status
check status_shows_the_gid says "0000:0000:0000:0000:0000:ffff:0a4d:0001" $setup status
check status_exits_0 exits 0 $setup status
check device_is_usable says "PORT_ACTIVE" ibv_devinfo -d rxe0
check down_succeeds exits 0 $setup down
check down_left_no_link no_links
check down_left_no_module no_module
check down_twice_succeeds exits 0 $setup down

# The interface of the default route; a second round; a device of somebody else.
ip route add default via 10.77.0.254
check default_route_is_found says "on veth0" $setup up
check up_and_down_a_second_time exits 0 $setup down
modprobe rdma_rxe
rdma link add theirs type rxe netdev veth0
check foreign_device_is_success says "theirs on veth0 is there already" $setup up veth0
check foreign_device_survives_down says "left alone: theirs" $setup down
check foreign_device_is_still_there one_link veth0
story_ends
