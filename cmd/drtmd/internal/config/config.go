// Package config is the configuration of a node: one YAML file, overridden by DRTMD_* environment
// variables, overridden by flags.
//
// The tags of Config are the one list of keys: doc is a line for people, example a value for
// drtmd config --example where the default says little. A key's name in the environment is its path
// in capitals with underscores, DRTMD_CONTROL_LISTEN; its flag is the path with dashes,
// --control-listen, and short is another one for what is typed often. Sizes (Bytes) and times have
// units. The options that protocols and workloads describe (package option) are keys of the section data.
package config

import (
	"time"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto/option"
)

// Config of a node. The zero value is of no use: Load and Default give one.
type Config struct {
	Node      Node      `yaml:"node"`
	Control   Control   `yaml:"control"`
	Admin     Admin     `yaml:"admin"`
	Cluster   Cluster   `yaml:"cluster"`
	Transport Transport `yaml:"transport"`
	Data      Data      `yaml:"data"`
	Log       Log       `yaml:"log"`
	// Has is what the node is put together from; no key.
	Has *composition.Composition
}

// Node is the machine.
type Node struct {
	Name       string `yaml:"name" doc:"name for people; default: the host's" example:"lab-3"`
	ID         int    `yaml:"id" doc:"node id in the cluster; -1: the one it had before, else the lowest free one"`
	StateDir   string `yaml:"state_dir" doc:"folder that lasts: identity, the embedded etcd's data; default: $STATE_DIRECTORY, else a folder of the user" example:"/var/lib/drtmd"`
	RuntimeDir string `yaml:"runtime_dir" doc:"folder of sockets, gone after a restart; default: $RUNTIME_DIRECTORY, else a folder of the user" example:"/run/drtmd"`
	CPUs       string `yaml:"cpus" short:"cpus" doc:"CPUs for worker threads, one for each in turn; empty: with several NUMA nodes those of the NIC's, else all of the process" example:"2-5,8"`
}

// Control is the control plane.
type Control struct {
	Listen    string `yaml:"listen" doc:"HOST:PORT or unix:PATH; without TLS only loopback and unix sockets" example:"10.0.0.3:7440"`
	Advertise string `yaml:"advertise" doc:"address under which the others reach it; default: that of listen"`
	CA        string `yaml:"ca" short:"ca" doc:"certificate of the cluster's CA (PEM); with cert and key: TLS, both sides show certificates" example:"/etc/drtmd/ca.pem"`
	Cert      string `yaml:"cert" short:"cert" doc:"certificate of this node (PEM)" example:"/etc/drtmd/node.pem"`
	Key       string `yaml:"key" short:"key" doc:"key of that certificate (PEM), readable by its owner only" example:"/etc/drtmd/node.key"`
	Insecure  bool   `yaml:"insecure" short:"insecure" doc:"listen beyond this host without TLS: whoever reaches the port owns the cluster"`

	MaxConnections int     `yaml:"max_connections" doc:"connections at the same time; more are closed at once"`
	MaxMessage     Bytes   `yaml:"max_message" doc:"largest message that is taken"`
	RatePerPeer    float64 `yaml:"rate_per_peer" doc:"requests per second and connection, in bursts of twice as many"`
}

// Admin is the port for metrics, health and the live page.
type Admin struct {
	Listen string `yaml:"listen" doc:"HOST:PORT of metrics, health and the live page; off: none"`
	Pprof  bool   `yaml:"pprof" doc:"serve /debug/pprof to other hosts as well, not to loopback alone"`
}

// Cluster is how the node finds the others.
type Cluster struct {
	Name       string        `yaml:"name" doc:"name of the cluster"`
	Join       []string      `yaml:"join" short:"join" doc:"control addresses of members, the first that answers is asked, nobody where cluster.etcd says where the cluster is; empty: this node begins the cluster, or comes back to the one it began" example:"[10.0.0.1:7440]"`
	Etcd       []string      `yaml:"etcd" short:"etcd" doc:"client URLs of an external etcd; empty: the first node embeds one" example:"[https://10.0.0.9:2379]"`
	EtcdListen string        `yaml:"etcd_listen" doc:"HOST:PORT of the embedded etcd; the rules of control.listen hold; port 0: a free one"`
	Lease      time.Duration `yaml:"lease" doc:"membership lease: a node that is not heard of for so long is removed; at least 2s"`
}

// Transport is the device.
type Transport struct {
	Provider string `yaml:"provider" short:"transport" doc:"shm (threads and processes of this host) or ibv (RDMA hardware, Soft-RoCE)"`
	Device   string `yaml:"device" short:"device" doc:"RDMA device; empty: the first with an active port" example:"mlx5_0"`
	GIDIndex int    `yaml:"gid_index" doc:"-1: chosen as drtmd devices shows"`
	RunDir   string `yaml:"run_dir" doc:"shm: folder in which processes meet; empty: the user's own below /dev/shm"`
}

// Data is what the cluster holds while no benchmark asks for something else. All members have the
// same; the leading member's counts.
type Data struct {
	Workload string `yaml:"workload" doc:"tables to load, see drtmd bench --list"`
	Protocol string `yaml:"protocol" doc:"see drtmd bench --list"`
	Workers  int    `yaml:"workers" doc:"workers per node"`
	Threads  int    `yaml:"threads" doc:"OS threads that the workers run on; 0: one each, at most one per CPU"`
	Fibers   int    `yaml:"fibers" doc:"transactions at the same time per worker"`
	Cache    Bytes  `yaml:"cache" doc:"location cache"`
	// Options of the workload and of the protocol that were given, by name. Each is a key of this section.
	WorkloadOptions option.Settings `options:"workload"`
	Options         option.Settings `options:"protocol"`
}

// Log is the log on standard error.
type Log struct {
	Level  string `yaml:"level" doc:"debug, info, warn or error"`
	Format string `yaml:"format" doc:"console, json, or auto: console on a terminal"`
}

// Bytes is a size; in files and on the command line with a unit, as 64MiB.
type Bytes = option.Bytes
