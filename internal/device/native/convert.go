package native

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// noErrno is NO_ERRNO of native.h: it stands for the errno of a call that failed and set none.
const noErrno = 4096

var errNoErrno = errors.New("it failed without an errno")

// cause converts an errno of the C code to an error.
func cause(errno unix.Errno) error {
	if errno == noErrno {
		return errNoErrno
	}
	return errno
}

// classify is verbs.FromErrno for an errno of the C code.
func classify(errno unix.Errno) error {
	if errno == noErrno {
		return errNoErrno
	}
	return verbs.FromErrno(errno)
}

// probeError is classify for the making of a probe on a device that exists. Most errors
// there mean that the port cannot do the method now: its link or address is gone
// (ENETUNREACH, EINVAL, ENODEV of a GID), the driver has no such queue pair, or the
// device rejects the command (EIO).
func probeError(errno unix.Errno) error {
	switch errno {
	case unix.ENOMEM, unix.EAGAIN, unix.ENOSPC, unix.EMFILE, unix.ENFILE, unix.EACCES, unix.EPERM:
		return classify(errno)
	}
	return fmt.Errorf("%w: %w", verbs.ErrUnsupported, cause(errno))
}

// mtuBytes converts enum ibv_mtu: 1 is 256 bytes, 5 is 4096.
func mtuBytes(mtu int) int {
	if mtu < 1 || mtu > 5 {
		return 0
	}
	return 128 << mtu
}

// speedNDR is the largest value of active_speed: the field is one byte, and the kernel
// stores NDR in it for every faster speed (copy_port_attr_to_resp in
// drivers/infiniband/core/uverbs_std_types_device.c).
const speedNDR = 128

// linkRate converts active_width and active_speed of struct ibv_port_attr
// (rdma-core's ibv_devinfo has the tables) to "4x" and Gb/s over all lanes.
func linkRate(width int, speed uint32) (string, float64) {
	lanes := map[int]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[width]
	perLane := map[uint32]float64{
		1: 2.5, 2: 5, 4: 10, 8: 10.3125, 16: 14.0625, 32: 25.78125, 64: 50, 128: 100, 256: 200,
	}[speed]
	if lanes == 0 {
		return "", 0
	}
	return strconv.Itoa(lanes) + "x", float64(lanes) * perLane
}

// completionStatuses is enum ibv_wc_status (ibv_poll_cq(3)) in lower snake case.
var completionStatuses = [...]string{
	"success", "loc_len_err", "loc_qp_op_err", "loc_eec_op_err", "loc_prot_err", "wr_flush_err",
	"mw_bind_err", "bad_resp_err", "loc_access_err", "rem_inv_req_err", "rem_access_err", "rem_op_err",
	"retry_exc_err", "rnr_retry_exc_err", "loc_rdd_viol_err", "rem_inv_rd_req_err", "rem_abort_err",
	"inv_eecn_err", "inv_eec_state_err", "fatal_err", "resp_timeout_err", "general_err", "tm_err",
	"tm_rndv_incomplete",
}

func completionStatus(status int) string {
	if status < 0 || status >= len(completionStatuses) {
		return "unknown_" + strconv.Itoa(status)
	}
	return completionStatuses[status]
}
