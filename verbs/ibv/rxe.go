//go:build cgo && linux

package ibv

import "drtmd/verbs"

// driverRXE is the name of Soft-RoCE's driver.
const driverRXE = "rxe"

// Quirks says what the driver reports in place of what the contract asks for.
func (d *device) Quirks() verbs.Quirks {
	if !d.rxe {
		return verbs.Quirks{}
	}
	return verbs.Quirks{RecvTooSmallLocal: verbs.WCLocQPOpErr,
		RecvTooSmallRemote: verbs.WCRemOpErr}
}
