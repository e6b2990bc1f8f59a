package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Error{Op: "ibv_create_qp", Device: "rxe0", Errno: syscall.ENOMEM, Hint: "raise it"},
			"ibv_create_qp on rxe0: ENOMEM (cannot allocate memory); raise it"},
		{&Error{Op: "completion", QPN: 17, Status: WCRemInvReqErr, Raw: WCRemOpErr,
			VendorErr: 0x10},
			"completion (QP 17): IBV_WC_REM_INV_REQ_ERR (provider: IBV_WC_REM_OP_ERR) " +
				"(vendor error 0x10)"},
		{&Error{Op: "completion", Status: WCRetryExcErr, Raw: WCRetryExcErr},
			"completion: IBV_WC_RETRY_EXC_ERR"},
		{&Error{Op: "open", Detail: "port 9 of 1", Err: ErrNoDevice},
			"open: port 9 of 1: no such device"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q\nwant %q", got, c.want)
		}
	}
}

func TestErrorIs(t *testing.T) {
	var err error = fmt.Errorf("around: %w", &Error{Op: "x", Errno: syscall.EINVAL,
		Status: WCRemAccessErr, Err: ErrClosed})
	for _, is := range []error{syscall.EINVAL, WCRemAccessErr, ErrClosed} {
		wantErr(t, "an error with all of these", err, is)
	}
	for _, isNot := range []error{syscall.ENOMEM, WCSuccess, WCLocLenErr, ErrCQOverrun,
		syscall.Errno(0)} {
		if errors.Is(err, isNot) {
			t.Errorf("it is not %v", isNot)
		}
	}
	if errors.Is(&Error{Op: "x"}, WCSuccess) || errors.Is(&Error{Op: "x"}, syscall.Errno(0)) {
		t.Error("an error without a status or errno is not the zero one")
	}
}

func TestWrapKeepsTheCause(t *testing.T) {
	c := &Context{attr: DeviceAttr{Name: "fake0"}}
	if c.wrap("x", nil) != nil {
		t.Fatal("nil became an error")
	}
	sentinel := errors.New("the peer is dead")
	err := c.wrap("ibv_reg_mr", errors.Join(sentinel, &fs.PathError{Op: "open", Path: "/x",
		Err: syscall.EACCES}))
	for _, is := range []error{sentinel, syscall.EACCES, fs.ErrPermission} {
		wantErr(t, "wrapped", err, is)
	}
	if s := err.Error(); !strings.Contains(s, "ibv_reg_mr on fake0") ||
		!strings.Contains(s, "/x") || strings.Count(s, "permission denied") != 1 {
		t.Fatalf("%q", s)
	}
	own := &Error{Op: "mmap", Errno: syscall.ENOMEM}
	err = c.wrap("ibv_reg_mr", own)
	if own.Device != "fake0" || err.Error() != own.Error() {
		t.Fatalf("%v", err)
	}
	wantErr(t, "a deadline", c.wrap("x", os.ErrDeadlineExceeded), os.ErrDeadlineExceeded)
}

func TestStatusNamesAndHints(t *testing.T) {
	for s, want := range map[WCStatus]string{
		WCSuccess: "IBV_WC_SUCCESS", WCLocProtErr: "IBV_WC_LOC_PROT_ERR",
		WCWRFlushErr: "IBV_WC_WR_FLUSH_ERR", WCRemAccessErr: "IBV_WC_REM_ACCESS_ERR",
		WCRNRRetryExcErr: "IBV_WC_RNR_RETRY_EXC_ERR", WCGeneralErr: "IBV_WC_GENERAL_ERR",
		99: "unknown wc status 99",
	} {
		if s.String() != want {
			t.Errorf("%d is %q, want %q", s, s, want)
		}
	}
	// The values are those of ibv_wc_status: the drivers pass them on.
	if WCLocProtErr != 4 || WCRemAccessErr != 10 || WCRetryExcErr != 12 || WCGeneralErr != 21 {
		t.Error("the statuses are numbered otherwise than in libibverbs")
	}
	for s := WCLocLenErr; s <= WCGeneralErr; s++ {
		if strings.HasPrefix(s.String(), "unknown") {
			t.Errorf("status %d has no name", s)
		}
	}
	wc := WC{}
	if wc.Err() != nil {
		t.Error("a success is an error")
	}
}

func TestEnumNames(t *testing.T) {
	for got, want := range map[string]string{
		OpCAS.String(): "ATOMIC_CMP_AND_SWP", OpRecvWriteImm.String(): "RECV_RDMA_WITH_IMM",
		opEnd.String():          "unknown opcode 10",
		Access(0).String():      "none",
		AccessAll.String():      "LOCAL_WRITE|REMOTE_WRITE|REMOTE_READ|REMOTE_ATOMIC",
		Access(1 << 9).String(): "0x200", RC.String(): "RC", StateRTS.String(): "RTS",
		AtomicHCA.String(): "ATOMIC_HCA", LinkEthernet.String(): "Ethernet",
		PortActive.String(): "ACTIVE", EventCQErr.String(): "CQ error", GIDTypeRoCEv2.String(): "RoCE v2",
		QPType(0).String(): "unknown QP type 0",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestNothingWasSentBlamesNoPeer: a request that never left names this side, a silent peer the
// firewall, and a port that is down is named by Explain.
func TestNothingWasSentBlamesNoPeer(t *testing.T) {
	for _, c := range []struct {
		wc   WC
		want string
	}{
		{WC{Status: WCRetryExcErr, Raw: WCLocQPOpErr}, "no way to the peer: the network interface"},
		{WC{Status: WCLocQPOpErr, Raw: WCLocQPOpErr}, "no way to the peer: the network interface"},
		{WC{Status: WCRetryExcErr, Raw: WCRetryExcErr}, "behind a firewall (RoCE v2 is UDP port 4791)"},
	} {
		if err := c.wc.Err(); !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not say %q", err, c.want)
		}
	}
	r := newRig(t, rigConfig{})
	wc := WC{Status: WCRetryExcErr, Raw: WCRetryExcErr}
	if err := r.qp.ctx.Explain(wc.Err()); !strings.Contains(err.Error(), "firewall") {
		t.Errorf("with an active port: %v", err)
	}
	r = newRig(t, rigConfig{change: func(d *fakeDriver) { d.port.State = PortDown }})
	for _, cause := range []error{wc.Err(), &Error{Op: "x", Errno: syscall.ENETUNREACH}} {
		err := fmt.Errorf("latency: %w", r.qp.ctx.Explain(cause))
		if !strings.Contains(err.Error(), "is DOWN: bring up the network interface") ||
			strings.Contains(err.Error(), "firewall") {
			t.Errorf("with a port that is down: %v", err)
		}
	}
	other := &Error{Op: "x", Errno: syscall.ENOMEM, Hint: "mine"}
	if r.qp.ctx.Explain(other) != error(other) || other.Hint != "mine" || r.qp.ctx.Explain(nil) != nil {
		t.Error("Explain changed an error that is of something else")
	}
}
