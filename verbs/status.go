package verbs

// WCStatus is the status of a completion: the values and names of ibv_wc_status. It is an
// error, so errors.Is(err, verbs.WCRemAccessErr) works on what the layer returns.
type WCStatus uint32

const (
	WCSuccess WCStatus = iota
	WCLocLenErr
	WCLocQPOpErr
	WCLocEECOpErr
	WCLocProtErr
	WCWRFlushErr
	WCMWBindErr
	WCBadRespErr
	WCLocAccessErr
	WCRemInvReqErr
	WCRemAccessErr
	WCRemOpErr
	WCRetryExcErr
	WCRNRRetryExcErr
	WCLocRDDViolErr
	WCRemInvRDReqErr
	WCRemAbortErr
	WCInvEECNErr
	WCInvEECStateErr
	WCFatalErr
	WCRespTimeoutErr
	WCGeneralErr
)

var statusNames = [...]string{
	"IBV_WC_SUCCESS", "IBV_WC_LOC_LEN_ERR", "IBV_WC_LOC_QP_OP_ERR", "IBV_WC_LOC_EEC_OP_ERR",
	"IBV_WC_LOC_PROT_ERR", "IBV_WC_WR_FLUSH_ERR", "IBV_WC_MW_BIND_ERR", "IBV_WC_BAD_RESP_ERR",
	"IBV_WC_LOC_ACCESS_ERR", "IBV_WC_REM_INV_REQ_ERR", "IBV_WC_REM_ACCESS_ERR",
	"IBV_WC_REM_OP_ERR", "IBV_WC_RETRY_EXC_ERR", "IBV_WC_RNR_RETRY_EXC_ERR",
	"IBV_WC_LOC_RDD_VIOL_ERR", "IBV_WC_REM_INV_RD_REQ_ERR", "IBV_WC_REM_ABORT_ERR",
	"IBV_WC_INV_EECN_ERR", "IBV_WC_INV_EEC_STATE_ERR", "IBV_WC_FATAL_ERR",
	"IBV_WC_RESP_TIMEOUT_ERR", "IBV_WC_GENERAL_ERR",
}

func (s WCStatus) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return enumName(nil, int(s), "wc status")
}

func (s WCStatus) Error() string { return s.String() }

// noWay is what LOC_QP_OP_ERR means on Soft-RoCE, where the layer corrects whatever else it stands
// for.
const noWay = "the device found no way to the peer: the network interface behind it is or was down, " +
	"has no route to the peer's address, or is in another network namespace than the initial one, " +
	"which Soft-RoCE does not reach: make the device in the initial one"

// Hint says in words what usually causes the status and what to look at, or "".
func (s WCStatus) Hint() string {
	switch s {
	case WCLocLenErr:
		return "the message is longer than the receive buffer posted for it"
	case WCLocQPOpErr:
		return noWay
	case WCLocProtErr:
		return "a local buffer is outside its MR, or its lkey is wrong or deregistered"
	case WCWRFlushErr:
		return "an earlier request failed and put the QP into the error state; look at that one"
	case WCRemInvReqErr:
		return "the responder refused the request: receive buffer too small, or the operation " +
			"is not enabled on its QP"
	case WCRemAccessErr:
		return "wrong rkey, address outside the remote MR, or a right missing on the remote " +
			"MR or QP"
	case WCRemOpErr:
		return "the responder could not complete the request"
	case WCRetryExcErr:
		return "the peer did not answer: dead, not connected to this QP, behind a firewall (RoCE v2 " +
			"is UDP port 4791), a path MTU over the port's active MTU, or a wrong GID index"
	case WCRNRRetryExcErr:
		return "the receiver had no receive buffer posted for longer than the RNR retries allow"
	}
	return ""
}
