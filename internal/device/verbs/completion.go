package verbs

import "strconv"

// completionStatuses lists the names of enum ibv_wc_status (ibv_poll_cq(3)) in lower snake case.
var completionStatuses = [...]string{
	"success", "loc_len_err", "loc_qp_op_err", "loc_eec_op_err", "loc_prot_err", "wr_flush_err",
	"mw_bind_err", "bad_resp_err", "loc_access_err", "rem_inv_req_err", "rem_access_err", "rem_op_err",
	"retry_exc_err", "rnr_retry_exc_err", "loc_rdd_viol_err", "rem_inv_rd_req_err", "rem_abort_err",
	"inv_eecn_err", "inv_eec_state_err", "fatal_err", "resp_timeout_err", "general_err", "tm_err",
	"tm_rndv_incomplete",
}

// CompletionStatus returns the name of a completion status (enum ibv_wc_status) in lower snake case.
func CompletionStatus(status int) string {
	if status < 0 || status >= len(completionStatuses) {
		return "unknown_" + strconv.Itoa(status)
	}
	return completionStatuses[status]
}

// ParseCompletionStatus returns the completion status with this name. Unlike CompletionStatus it knows no unknown_<number>.
func ParseCompletionStatus(name string) (int, bool) {
	for i, n := range completionStatuses {
		if n == name {
			return i, true
		}
	}
	return 0, false
}
