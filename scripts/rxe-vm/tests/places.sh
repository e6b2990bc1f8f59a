#!/usr/bin/env bash
# Devices that are not as expected: no node in /dev, the interface down, another address and MTU, the
# device deleted under a running daemon, a device made in a network namespace. Each is said by name,
# with the next step, and a daemon follows it.
# timeout: 400
set -u
# shellcheck source=scripts/rxe-vm/tests/lib/story.sh
. /work/story.sh

perf() { drtmd perf "$@" --transport ibv 2>&1; }
down="port 1 of rxe0 is DOWN: bring up the network interface veth0 behind it"

# A container without the node.
mv /dev/infiniband/uverbs0 /tmp/uverbs0
missing="its node /dev/infiniband/uverbs0 is not there"
check perf_names_the_missing_node says "$missing" perf read --iters 10
check perf_of_a_named_device_names_it says "$missing" perf read --iters 10 --device rxe0
check bench_names_it says "$missing" drtmd bench --transport ibv --duration 1s
check devices_names_it says "in a container pass --device /dev/infiniband" drtmd devices
mv /tmp/uverbs0 /dev/infiniband/uverbs0

# A daemon follows its device.
export DRTMD_ADDRESS=127.0.0.1:7440
drtmd serve --control-listen "$DRTMD_ADDRESS" --transport-provider ibv --node-id 1 \
  --node-state-dir /tmp/state --cluster-lease 10s --admin-listen off --data-accounts 100 \
  >/tmp/serve.out 2>/tmp/serve.err &
server=$!
ready() { [[ $(drtmd status 2>&1 | grep -c '^1 .* ready ') == 1 ]]; }
field() { says "$1" drtmd status --json; }
check serves eventually 120 ready
ip link set veth0 down
check status_says_that_the_port_is_down eventually 10 says "PROBLEM    $down" drtmd status
check status_then_fails exits 1 drtmd status
check perf_says_so says "$down" perf read --iters 10
check bench_says_so says "$down" drtmd bench --transport ibv --nodes 2 --accounts 100 --duration 1s
ip link set veth0 up
check status_is_good_again eventually 20 drtmd status
ip link set veth1 mtu 9000
ip link set veth0 mtu 9000
ip addr add 10.77.5.5/24 dev veth0
ip addr del 10.77.0.1/24 dev veth0
check status_has_the_new_address eventually 20 field '"gid": "::ffff:10.77.5.5"'
check status_has_the_new_mtu eventually 20 field '"active_mtu_bytes": 4096'
check serves_with_the_new_address eventually 120 ready
(rdma link delete rxe0 && touch /tmp/deleted) &
check a_deleted_device_is_no_ready_node eventually 20 says "refusing: device: use on rxe0: the device was removed" \
  drtmd status
check the_deletion_does_not_wait_for_the_daemon eventually 20 [ -e /tmp/deleted ]
check device_is_made_again eventually 20 rdma link add rxe0 type rxe netdev veth0
check serves_when_the_device_is_back eventually 120 ready
kill -TERM $server
wait $server

# The interface goes down in the middle.
(sleep 2 && ip link set veth0 down && sleep 8 && ip link set veth0 up) &
# The port may still be ACTIVE at the moment of the failure: both messages name the interface.
check perf_names_the_interface_that_went_down says "the network interface" perf read --duration 8s --size 64 \
  --measure latency
wait $!
sleep 1

# A device made in a network namespace, where Soft-RoCE reaches nobody.
ip netns add other && ip link add v2 type veth peer name v3 && ip link set v2 netns other
ip link set v3 up
ip netns exec other ip addr add 10.9.0.1/24 dev v2
ip netns exec other ip link set v2 up
ip netns exec other rdma link add rxe1 type rxe netdev v2
namespace="in another network namespace than the initial one, which Soft-RoCE does not reach"
check perf_names_the_namespace says "$namespace" perf read --device rxe1 --iters 10
check bench_names_the_namespace says "initial network namespace" drtmd bench --transport ibv \
  --device rxe1 --nodes 2 --accounts 100 --duration 1s
story_ends
