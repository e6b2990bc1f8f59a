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
		Long: `devices lists what drtmd can run on: the RDMA devices that libibverbs knows (transport
ibv), and the embedded default (transport shm).

Of each device it shows the driver, how far its atomics reach, its limits, and what it offers
beyond the common verbs; of each port the state, link layer, MTU and GID table, in which * marks
the GID that is used unless --gid-index of another command names one; and the network interface
behind it with its state. A device that cannot be opened is listed with the reason.

No device at all is no failure: exit code 0.`,
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
	c.Flags().StringVar(&only, "transport", "", "only this transport: shm or ibv")
	return c
}

// nextDevice is the way to an RDMA device on a machine without.
const nextDevice = "./soft-roce-setup.sh up     # makes a software RDMA device, needs root"

// listDevices is what one transport has. That it has nothing is a finding, not an error.
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
