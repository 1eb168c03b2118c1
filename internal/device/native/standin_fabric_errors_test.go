//go:build linux && cgo

package native_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
)

// fabricCalls are the calls that can fail while an endpoint is created, with the number of calls that succeed before: two protection
// domains, a completion queue with a channel and one without, an RC queue pair as a check, and four UD queue pairs with three
// transitions and 64 receives each.
var fabricCalls = []failure{
	{Call: ledger.CallAllocPD},
	{Call: ledger.CallAllocPD, Skip: 1},
	{Call: ledger.CallCreateCompChannel},
	{Call: ledger.CallCreateCQ},
	{Call: ledger.CallCreateCQ, Skip: 1},
	{Call: ledger.CallCreateQP},
	{Call: ledger.CallCreateQP, Skip: 1},
	{Call: ledger.CallCreateQP, Skip: 4},
	{Call: ledger.CallModifyQP},
	{Call: ledger.CallModifyQP, Skip: 1},
	{Call: ledger.CallModifyQP, Skip: 2},
	{Call: ledger.CallModifyQP, Skip: 3},
	{Call: ledger.CallModifyQP, Skip: 12},
	{Call: ledger.CallDestroyQP},
	{Call: ledger.CallRegMR},
	{Call: ledger.CallPostRecv},
	{Call: ledger.CallPostRecv, Skip: 4*64 - 1},
	{Call: ledger.CallReqNotifyCQ},
}

func TestAFabricThatCannotBeMadeSaysWhyAndLeavesNothingBehind(t *testing.T) {
	var rows []failureRow
	for _, f := range fabricCalls {
		f.Stage = "fabric"
		for errno, want := range map[unix.Errno][]string{
			unix.ENOMEM: {"limit"}, unix.EMFILE: {"limit"}, unix.EACCES: {"permission"},
			unix.EIO:    {"unsupported"}, // the port answers, so the device exists
			unix.EINVAL: {"unsupported"}, unix.EOPNOTSUPP: {"unsupported"},
		} {
			if errno == unix.EOPNOTSUPP && f.Call == ledger.CallCreateQP {
				want = []string{"unsupported", "never fabric"}
			}
			f.Errno = int32(errno)
			for _, f.Style = range []int32{standin.StyleManual, standin.StyleMinusOne} {
				rows = append(rows, failureRow{f, want, "new fabric standin0 port 1: " + f.Call.String() + ": "})
			}
		}
		f.Style = standin.StyleSilent
		rows = append(rows, failureRow{f, []string{"unsupported"}, f.Call.String() + ": unsupported operation: " + noErrno})
	}
	requireFailures(t, rows)
}

func TestAnOrderThatFailsSaysWhyAndLeavesNothingBehind(t *testing.T) {
	var rows []failureRow
	add := func(stage string, c ledger.Call, skip int32, errno unix.Errno, want string, styles ...int32) {
		for _, style := range styles {
			f := failure{Stage: stage, Call: c, Errno: int32(errno), Style: style, Skip: skip}
			rows = append(rows, failureRow{f, []string{want}, c.String() + " standin0 port 1: "})
		}
	}
	every := []int32{standin.StyleManual, standin.StyleNegative, standin.StyleMinusOne}
	null := []int32{standin.StyleManual} // they return a pointer
	add("offer", ledger.CallCreateQP, 0, unix.ENOMEM, "limit", null...)
	add("offer", ledger.CallCreateQP, 0, unix.EINVAL, "unsupported", null...)
	add("offer", ledger.CallModifyQP, 0, unix.ENOMEM, "limit", every...)
	for skip := range int32(4) {
		add("join", ledger.CallCreateAH, skip, unix.ENOMEM, "limit", null...)
		add("join", ledger.CallCreateAH, skip, unix.EHOSTUNREACH, "unsupported", null...)
		add("leave", ledger.CallDestroyAH, skip, unix.ENOMEM, "limit", every...)
	}
	for skip := range int32(2) {
		add("join", ledger.CallModifyQP, skip, unix.ENOMEM, "limit", every...)
		add("join", ledger.CallModifyQP, skip, unix.ETIMEDOUT, "unsupported", every...)
	}
	add("leave", ledger.CallDestroyQP, 0, unix.ENOMEM, "limit", every...)
	requireFailures(t, rows)
}

func TestAFabricThatCannotBeDestroyedSaysWhy(t *testing.T) {
	var rows []failureRow
	add := func(c ledger.Call, skip int32) {
		for _, style := range []int32{standin.StyleManual, standin.StyleNegative, standin.StyleMinusOne} {
			f := failure{Stage: "close fabric", Call: c, Errno: int32(unix.ENOMEM), Style: style, Skip: skip}
			rows = append(rows, failureRow{f, []string{"limit"}, "close fabric standin0 port 1: " + c.String() + ": "})
		}
	}
	for _, c := range []ledger.Call{ledger.CallDestroyQP, ledger.CallDestroyCQ, ledger.CallDeallocPD} {
		add(c, 0)
		add(c, 1)
	}
	add(ledger.CallDeregMR, 0)
	add(ledger.CallDestroyCompChannel, 0)
	requireFailures(t, rows)
}

// An error of a call within Run is the error of Run; a datagram that the device refuses to send is a fact.
func TestARunThatFailsSaysWhy(t *testing.T) {
	var rows []failureRow
	add := func(stage string, c ledger.Call, skip int32, text string, styles ...int32) {
		for _, style := range styles {
			for errno, what := range map[unix.Errno]string{unix.ENOMEM: "cannot allocate memory", unix.EIO: "input/output error"} {
				if c == ledger.CallPollCQ {
					what = "input/output error" // only the sign of its result says that it failed
				}
				f := failure{Stage: stage, Call: c, Errno: int32(errno), Style: style, Skip: skip}
				rows = append(rows, failureRow{f, nil, c.String() + text + what})
			}
		}
	}
	every := []int32{standin.StyleManual, standin.StyleNegative, standin.StyleMinusOne}
	add("run", ledger.CallPostSend, 0, ": ", every...)
	add("run", ledger.CallPostSend, 1, ": ", every...)
	for skip := range int32(3) {
		add("run", ledger.CallGetCQEvent, skip, " standin0 port 1: ", standin.StyleManual)
		add("run", ledger.CallPollCQ, skip, " standin0 port 1: ", standin.StyleNegative)
	}
	add("run on", ledger.CallPollCQ, 1, " standin0 port 1: ", standin.StyleNegative)
	add("run", ledger.CallReqNotifyCQ, 0, " standin0 port 1: ", every...)
	add("run on", ledger.CallPostRecv, 0, " standin0 port 1: ", every...)
	requireFailures(t, rows)
}
