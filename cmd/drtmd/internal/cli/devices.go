package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"drtmd/cmd/drtmd/internal/inventory"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/verbs"
)

func (a *app) devicesCommand() *cobra.Command {
	var asJSON bool
	var only string
	c := &cobra.Command{
		Use:   "devices",
		Short: "list RDMA devices, their ports, GIDs and network interfaces",
		Long: `devices lists the devices that drtmd can use: the RDMA devices of libibverbs (transport
ibv), and the shared-memory device (transport shm).

For each device it prints the driver, the scope of its atomics, its limits, and its optional
features. For each port it prints state, link layer, MTU, the GID table, and the network interface
behind it. * marks the GID that drtmd uses unless --gid-index names another one. A device that
cannot be opened is listed with the reason.

Exit codes:
  0    done, also if there is no device
  1    failed
  2    wrong command line`,
		Example: `  drtmd devices
  drtmd devices --transport ibv --json
  sudo ./soft-roce-setup.sh up     make a software RDMA device on this machine`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			names := []string{"ibv", "shm"}
			if only != "" {
				names = []string{only}
			}
			var list []report.Transport
			for _, name := range names {
				t, err := listDevices(name)
				if err != nil {
					return err
				}
				list = append(list, t)
			}
			if asJSON {
				return report.DevicesJSON(a.stdout, list)
			}
			return report.Devices(a.stdout, list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (schema "+report.DevicesSchema+")")
	c.Flags().StringVar(&only, "transport", "", "list only the devices of transport `NAME`: shm or ibv")
	return c
}

// nextDevice is the advice for a machine without an RDMA device.
const nextDevice = "./soft-roce-setup.sh up     # makes a software RDMA device, needs root"

// listDevices lists the devices of one transport; none is not an error.
func listDevices(name string) (report.Transport, error) {
	p, err := transport.New(name, transport.Options{})
	if err != nil {
		return report.Transport{}, err
	}
	t := report.Transport{Name: name}
	t.Devices, t.Err = inventory.List(p, inventory.Kernel())
	if len(t.Devices) == 0 && !errors.Is(t.Err, verbs.ErrNotBuilt) {
		t.Next = nextDevice
	}
	return t, nil
}
