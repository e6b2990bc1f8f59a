package admin

import (
	"net"
	"net/url"
	"strconv"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
)

// pagesOf are the addresses of the other nodes' pages, of those that a browser may reach: an admin
// port on loopback is linked to from nodes of its own host only.
func pagesOf(c *status.Cluster) map[proto.NodeID]string {
	self := ""
	for i := range c.Nodes {
		if int(c.Nodes[i].Member.Node) == int(c.From) {
			self = c.Nodes[i].Host
		}
	}
	pages := map[proto.NodeID]string{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if int(n.Member.Node) == int(c.From) || n.Phase == status.Gone {
			continue
		}
		if page := pageOf(n, n.Host == self); page != "" {
			pages[n.Member.Node] = page
		}
	}
	return pages
}

// pageOf is the address of a node's page; "" if there is none that works. Members say what their
// addresses are, so nothing but an IP address and a port is taken.
func pageOf(n *status.Node, sameHost bool) string {
	ip, port := addressOf(n.Admin)
	if ip == nil || port == 0 {
		return ""
	}
	if ip.IsUnspecified() { // it listens everywhere: where its control plane is known to be
		if ip, _ = addressOf(n.Member.Control); ip == nil || ip.IsUnspecified() {
			return ""
		}
	}
	if ip.IsLoopback() && !sameHost {
		return ""
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(ip.String(), strconv.Itoa(port)), Path: "/"}
	return u.String()
}

// addressOf takes an IP address with a port apart; nil if it is anything else.
func addressOf(address string) (net.IP, int) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, 0
	}
	return net.ParseIP(host), int(n)
}
