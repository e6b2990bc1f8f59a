// Package config reads the configuration of a node. Flags override DRTMD_* environment variables, which
// override one YAML file.
//
// The fields of Config are the list of keys. Their tags: doc is the help line; example is a value for
// drtmd config --example if the default is no good example; short is a second, shorter flag. The
// environment variable of a key is its path in capitals with underscores (DRTMD_CONTROL_LISTEN), its flag
// the path with dashes (--control-listen). Sizes (Bytes) and times have units. The options of protocols
// and workloads (package option) are keys of the section data.
package config

import (
	"time"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto/option"
)

// Config is the configuration of a node. Make one with Load or Default; the zero value is not valid.
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
	Name       string `yaml:"name" doc:"display name of the node; default: the host name" example:"lab-3"`
	ID         int    `yaml:"id" doc:"node id in the cluster; -1: the id it had before, else the lowest free id"`
	StateDir   string `yaml:"state_dir" doc:"folder for what must survive a restart: identity, data of the embedded etcd; default: $STATE_DIRECTORY, else a folder of the user" example:"/var/lib/drtmd"`
	RuntimeDir string `yaml:"runtime_dir" doc:"folder for sockets; it need not survive a restart; default: $RUNTIME_DIRECTORY, else a folder of the user" example:"/run/drtmd"`
	CPUs       string `yaml:"cpus" short:"cpus" doc:"CPUs to which worker threads are pinned, one each in turn; empty: the CPUs of the NIC's NUMA node if there are several NUMA nodes, else all CPUs of the process" example:"2-5,8"`
}

// Control is the control plane.
type Control struct {
	Listen    string `yaml:"listen" doc:"HOST:PORT or unix:PATH to listen on; without TLS only loopback and unix sockets" example:"10.0.0.3:7440"`
	Advertise string `yaml:"advertise" doc:"address at which other members reach this node; default: control.listen"`
	CA        string `yaml:"ca" short:"ca" doc:"certificate of the cluster's CA (PEM); with cert and key it enables mutual TLS" example:"/etc/drtmd/ca.pem"`
	Cert      string `yaml:"cert" short:"cert" doc:"certificate of this node (PEM)" example:"/etc/drtmd/node.pem"`
	Key       string `yaml:"key" short:"key" doc:"key of control.cert (PEM); only its owner may read it" example:"/etc/drtmd/node.key"`
	Insecure  bool   `yaml:"insecure" short:"insecure" doc:"listen beyond this host without TLS: anyone who reaches the port controls the cluster"`

	MaxConnections int     `yaml:"max_connections" doc:"most connections at the same time; further ones are closed at once"`
	MaxMessage     Bytes   `yaml:"max_message" doc:"largest message accepted"`
	RatePerPeer    float64 `yaml:"rate_per_peer" doc:"requests per second accepted on one connection; bursts of twice as many are allowed"`
}

// Admin is the port for metrics, health and the live page.
type Admin struct {
	Listen string `yaml:"listen" doc:"HOST:PORT of metrics, health and the live page; off: no admin port"`
	Pprof  bool   `yaml:"pprof" doc:"serve /debug/pprof to other hosts too, not only to loopback"`
}

// Cluster is how the node finds the others.
type Cluster struct {
	Name       string        `yaml:"name" doc:"name of the cluster"`
	Join       []string      `yaml:"join" short:"join" doc:"control addresses of members, tried in order; ignored if cluster.etcd is set; empty: this node begins the cluster, or returns to the one it began" example:"[10.0.0.1:7440]"`
	Etcd       []string      `yaml:"etcd" short:"etcd" doc:"client URLs of an external etcd; empty: the first node embeds etcd" example:"[https://10.0.0.9:2379]"`
	EtcdListen string        `yaml:"etcd_listen" doc:"HOST:PORT of the embedded etcd, with the rules of control.listen; port 0: any free port"`
	Lease      time.Duration `yaml:"lease" doc:"membership lease: a node that does not renew it for this long is removed; at least 2s"`
}

// Transport is the device.
type Transport struct {
	Provider string `yaml:"provider" short:"transport" doc:"shm (threads and processes of this host) or ibv (RDMA hardware, Soft-RoCE)"`
	Device   string `yaml:"device" short:"device" doc:"RDMA device; empty: the first device with an active port" example:"mlx5_0"`
	GIDIndex int    `yaml:"gid_index" doc:"row of the port's GID table; -1: the row that drtmd devices marks"`
	RunDir   string `yaml:"run_dir" doc:"shm: folder through which processes find each other; empty: the user's own, below /dev/shm"`
	KeepDir  string `yaml:"keep_dir" doc:"ibv: folder of kept memory (data.keep), on tmpfs, hugetlbfs or a DAX file system; shm keeps it in its run_dir"`
}

// Data describes the tables that the cluster serves while no benchmark runs. All members should have
// the same settings; those of the leading member count.
type Data struct {
	Workload string `yaml:"workload" doc:"tables to load, see drtmd bench --list"`
	Protocol string `yaml:"protocol" doc:"see drtmd bench --list"`
	Replicas int    `yaml:"replicas" doc:"copies of each record on different nodes, for protocols that replicate; the nodes build nothing before there are that many"`
	Growth   Bytes  `yaml:"growth" doc:"memory by which the tables of a node may grow beyond their first room, together, for protocols with such tables; 0B: they do not grow"`
	Keep     string `yaml:"keep" doc:"name of memory for the tables and logs that outlives the process, another one for each node of a host; letters, digits, - and _; empty: memory that ends with the process, or, if the protocol logs transactions (data.durable), that of the node's name" example:"node1"`
	Workers  int    `yaml:"workers" doc:"workers per node"`
	Threads  int    `yaml:"threads" doc:"OS threads that run the workers; 0: one per worker, at most one per CPU"`
	Fibers   int    `yaml:"fibers" doc:"fibers per worker; each runs one transaction at a time"`
	Cache    Bytes  `yaml:"cache" doc:"size of the location cache"`
	// Options of the workload and of the protocol that were given, by name. Each is a key of this section.
	WorkloadOptions option.Settings `options:"workload"`
	Options         option.Settings `options:"protocol"`
}

// Log is the log on standard error.
type Log struct {
	Level  string `yaml:"level" doc:"debug, info, warn or error"`
	Format string `yaml:"format" doc:"console, json, or auto: console on a terminal, else json"`
}

// Bytes is a size; in files and on the command line with a unit, as 64MiB.
type Bytes = option.Bytes
