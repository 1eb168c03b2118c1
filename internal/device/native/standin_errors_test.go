//go:build linux && cgo

package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// doFailures tries each failure on a device of its own.
func doFailures(s *subject) error {
	for _, f := range s.Failures {
		err := s.fail(f)
		s.FailCall = 0
		s.report.Failures = append(s.report.Failures, newErrReport(err))
	}
	return nil
}

// fail returns the error of the stage's call.
func (s *subject) fail(f failure) error {
	arm := func(stage string) {
		if f.Stage == stage {
			s.FailErrno, s.FailStyle, s.FailSkip, s.FailCall = f.Errno, f.Style, f.Skip, int32(f.Call)
		}
	}
	led, file, err := ledger.New("standin")
	if err != nil {
		return err
	}
	defer led.Close()
	defer file.Close()
	sysfs, nodes := "sys", "dev"
	if f.Netns {
		sysfs = "netns"
	}
	if f.NoNode {
		nodes = "nowhere"
	}
	arm("open")
	d, err := s.backend(sysfs, nodes).Open("standin0", led)
	if err != nil || f.Stage == "open" {
		return err
	}
	err = s.failOpen(d, f, arm)
	arm("close")
	if closing := d.Close(long); err == nil {
		err = closing
	}
	return err
}

func (s *subject) failOpen(d verbs.Device, f failure, arm func(string)) error {
	s.dev = d
	switch f.Stage {
	case "query":
		arm("query")
		_, err := d.QueryPort(1)
		return err
	case "read":
		if err := s.inject(event{Type: int32(verbs.EventPortErr), Element: 1}); err != nil {
			return err
		}
		arm("read")
		_, err := d.ReadEvents(make([]verbs.Run, 1), long)
		return err
	case "close":
		return nil
	case "fabric", "offer", "join", "run", "run on", "leave", "close fabric":
		return s.failFabric(f, arm)
	}
	s.Timeout, s.Cursor = long, 0
	copy(s.Control.Plan[:], f.Plan+"\x00")
	if f.Plan != "" {
		s.Timeout = missed
	}
	arm("probe")
	p, err := s.probe(f.Method)
	if err != nil || f.Stage == "probe" {
		return err
	}
	arm("round")
	r, err := p.Round(0)
	if f.Stage == "next round" && err == nil {
		arm("next round")
		r, err = p.Round(0)
	}
	if strings.HasSuffix(f.Stage, "round") && err == nil && r.Status != "" {
		err = fmt.Errorf("%s: %s", r.Outcome, r.Status)
	}
	arm("close probe")
	if closing := p.Close(long); err == nil {
		err = closing
	}
	return err
}

// noErrno is the error text of a call that failed with errno 0.
const noErrno = "it failed without an errno"

type failureRow struct {
	failure
	want []string // sentinels
	text string   // part of the error
}

// requireFailures makes each row's call fail and compares the error.
func requireFailures(t *testing.T, rows []failureRow) {
	t.Helper()
	o := order{Kind: "failures", GIDIndex: -1, PKeyIndex: -1}
	for _, row := range rows {
		o.Failures = append(o.Failures, row.failure)
	}
	r := mustCarryOut(t, o)
	require.Len(t, r.Failures, len(rows))
	for i, row := range rows {
		name := fmt.Sprintf("%s in stage %s: errno %d, style %d", row.Call, row.Stage, row.Errno, row.Style)
		require.ElementsMatch(t, row.want, r.Failures[i].Is, "%s: %s", name, r.Failures[i].Text)
		require.Contains(t, r.Failures[i].Text, row.text, name)
		require.NotEmpty(t, r.Failures[i].Text, name)
	}
}

func TestAFailedOpenSaysWhy(t *testing.T) {
	row := func(c ledger.Call, errno unix.Errno, want ...string) failureRow {
		return failureRow{failure: failure{Stage: "open", Call: c, Errno: int32(errno)}, want: want}
	}
	var rows []failureRow
	for _, c := range []ledger.Call{ledger.CallGetDeviceList, ledger.CallOpenDevice, ledger.CallQueryDevice} {
		rows = append(rows,
			row(c, unix.EACCES, "permission"), row(c, unix.EPERM, "permission"),
			row(c, unix.ENODEV, "unsupported"), row(c, unix.ENOSYS, "unsupported"), row(c, unix.ENOENT, "unsupported"),
			row(c, unix.ENXIO, "no device"), row(c, unix.EIO, "no device"),
			row(c, unix.ENOMEM, "limit"), row(c, unix.EAGAIN, "recovering"), row(c, unix.ENOSPC, "limit"),
			row(c, unix.EMFILE, "limit"), row(c, unix.ENFILE, "limit"), row(c, unix.EINVAL),
			failureRow{failure{Stage: "open", Call: c, Errno: int32(unix.EPERM), Netns: true}, []string{"netns", "permission"}, ""},
			failureRow{failure{Stage: "open", Call: c, Errno: int32(unix.EIO), NoNode: true}, []string{"unsupported"}, "mount it"},
			failureRow{failure{Stage: "open", Call: c, Style: standin.StyleSilent}, nil, noErrno},
		)
	}
	for i := range rows {
		if rows[i].text == "" {
			rows[i].text = rows[i].Call.String()
		}
	}
	requireFailures(t, rows)
}

// probeCalls are the calls that can fail while a probe is created, with the method that
// makes them and the number of calls that succeed before.
var probeCalls = []failure{
	{Call: ledger.CallAllocPD, Method: verbs.MethodRCWrite},
	{Call: ledger.CallCreateCompChannel, Method: verbs.MethodRCWrite},
	{Call: ledger.CallCreateCQ, Method: verbs.MethodRCWrite},
	{Call: ledger.CallCreateCQ, Method: verbs.MethodUDSend, Skip: 1},
	{Call: ledger.CallReqNotifyCQ, Method: verbs.MethodRCWrite},
	{Call: ledger.CallCreateQP, Method: verbs.MethodRCWrite},
	{Call: ledger.CallModifyQP, Method: verbs.MethodRCWrite},
	{Call: ledger.CallModifyQP, Method: verbs.MethodRCWrite, Skip: 1},
	{Call: ledger.CallModifyQP, Method: verbs.MethodRCWrite, Skip: 2},
	{Call: ledger.CallModifyQP, Method: verbs.MethodUDSend, Skip: 2},
	{Call: ledger.CallQueryGID, Method: verbs.MethodUDSend},
	{Call: ledger.CallCreateAH, Method: verbs.MethodUDSend},
	{Call: ledger.CallDestroyAH, Method: verbs.MethodUDSend},
	{Call: ledger.CallRegMR, Method: verbs.MethodUDSend},
	{Call: ledger.CallPostRecv, Method: verbs.MethodUDSend, Skip: 3},
	{Call: ledger.CallCreateQP, Method: verbs.MethodFlush},
	{Call: ledger.CallModifyQP, Method: verbs.MethodFlush},
	{Call: ledger.CallPostRecv, Method: verbs.MethodFlush},
}

func TestAProbeThatCannotBeMadeSaysWhyAndLeavesNothingBehind(t *testing.T) {
	var rows []failureRow
	for _, f := range probeCalls {
		f.Stage = "probe"
		for errno, want := range map[unix.Errno]string{
			unix.ENOMEM: "limit", unix.EAGAIN: "limit", unix.ENOSPC: "limit", unix.EMFILE: "limit", unix.ENFILE: "limit",
			unix.EACCES: "permission", unix.EPERM: "permission",
			unix.EIO:    "unsupported", // the port answers, so the device exists
			unix.EINVAL: "unsupported", unix.EOPNOTSUPP: "unsupported", unix.ENOSYS: "unsupported",
			unix.ENETUNREACH: "unsupported", unix.ETIMEDOUT: "unsupported", unix.ENODEV: "unsupported",
		} {
			f.Errno = int32(errno)
			for _, f.Style = range []int32{standin.StyleManual, standin.StyleMinusOne} {
				rows = append(rows, failureRow{f, []string{want}, f.Call.String() + " standin0 port 1: "})
			}
		}
		f.Style = standin.StyleSilent
		rows = append(rows, failureRow{f, []string{"unsupported"}, f.Call.String() + " standin0 port 1: unsupported operation: " + noErrno})
	}
	requireFailures(t, rows)
}

func TestEveryReturnConventionIsUnderstood(t *testing.T) {
	var rows []failureRow
	add := func(stage string, c ledger.Call, m verbs.Method, skip int32, want []string, text string, styles ...int32) {
		for _, style := range styles {
			rows = append(rows, failureRow{failure{Stage: stage, Call: c, Errno: int32(unix.ENOMEM), Style: style, Skip: skip, Method: m}, want, text})
		}
	}
	limit := []string{"limit"}
	const text = "cannot allocate memory"
	every := []int32{standin.StyleManual, standin.StyleNegative, standin.StyleMinusOne}
	add("query", ledger.CallQueryPort, 0, 0, limit, text, every...)
	add("open", ledger.CallQueryDevice, 0, 0, limit, text, every...)
	for _, m := range allMethods {
		for _, c := range []ledger.Call{ledger.CallDestroyQP, ledger.CallDestroyCQ, ledger.CallDestroyCompChannel, ledger.CallDeallocPD} {
			if m != verbs.MethodFlush || c != ledger.CallDestroyQP { // a flush probe has none left to destroy
				add("close probe", c, m, 0, limit, text, every...)
			}
		}
		add("round", ledger.CallReqNotifyCQ, m, 0, nil, "error: ibv_req_notify_cq: "+text, every...)
	}
	add("round", ledger.CallDestroyAH, verbs.MethodUDSend, 0, nil, "error: ibv_destroy_ah: "+text, every...)
	add("round", ledger.CallCreateAH, verbs.MethodUDSend, 0, nil, "error: ibv_create_ah: "+text, standin.StyleManual)
	add("round", ledger.CallCreateAH, verbs.MethodUDSend, 0, nil, "error: ibv_create_ah: "+noErrno, standin.StyleSilent)
	add("close probe", ledger.CallDeregMR, verbs.MethodUDSend, 0, limit, text, every...)
	add("round", ledger.CallDestroyQP, verbs.MethodFlush, 0, nil, "error: ibv_destroy_qp: "+text, every...)
	// NewProbe makes the first queue pair; each later round makes its own.
	add("next round", ledger.CallCreateQP, verbs.MethodFlush, 0, nil, "error: ibv_create_qp: "+text, standin.StyleManual)
	add("round", ledger.CallModifyQP, verbs.MethodFlush, 0, nil, "error: ibv_modify_qp: "+text, every...)
	add("next round", ledger.CallModifyQP, verbs.MethodFlush, 0, nil, "error: ibv_modify_qp: "+text, every...)
	add("next round", ledger.CallModifyQP, verbs.MethodFlush, 1, nil, "error: ibv_modify_qp: "+text, every...)
	add("next round", ledger.CallPostRecv, verbs.MethodFlush, 0, nil, "error: ibv_post_recv: "+text, every...)
	add("round", ledger.CallPostSend, verbs.MethodRCWrite, 0, nil, "error: ibv_post_send: "+text, every...)
	// Only the sign of the result shows that these polls failed.
	add("round", ledger.CallPollCQ, verbs.MethodRCWrite, 0, nil, "error: ibv_poll_cq: input/output error", standin.StyleNegative, standin.StyleSilent)
	add("round", ledger.CallGetCQEvent, verbs.MethodRCWrite, 1, nil, "error: ibv_get_cq_event: "+text, standin.StyleManual)
	add("round", ledger.CallGetCQEvent, verbs.MethodRCWrite, 1, nil, "error: ibv_get_cq_event: "+noErrno, standin.StyleSilent)
	for _, m := range allMethods {
		for _, c := range []ledger.Call{ledger.CallPollCQ, ledger.CallReqNotifyCQ} {
			rows = append(rows, failureRow{
				failure{Stage: "round", Call: c, Errno: int32(unix.EIO), Style: standin.StyleNegative, Method: m, Plan: "-"},
				nil, "error: " + c.String() + ": input/output error",
			})
		}
	}
	add("read", ledger.CallGetAsyncEvent, 0, 0, limit, text, standin.StyleManual)
	add("read", ledger.CallGetAsyncEvent, 0, 0, nil, noErrno, standin.StyleSilent)
	add("close", ledger.CallCloseDevice, 0, 0, limit, text, standin.StyleManual)
	add("close", ledger.CallCloseDevice, 0, 0, nil, noErrno, standin.StyleSilent)
	requireFailures(t, rows)
}

// doQueryEIO makes port queries fail with EIO, before and after the kernel has removed the device from sysfs.
func doQueryEIO(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	s.FailErrno, s.FailStyle, s.FailCall, s.FailAlways = int32(unix.EIO), standin.StyleManual, int32(ledger.CallQueryPort), 1
	for _, removed := range []bool{false, true} {
		if removed {
			s.unlist()
		}
		_, err := s.dev.QueryPort(1)
		s.report.Failures = append(s.report.Failures, newErrReport(err))
	}
	s.FailCall = 0
	s.check("close", s.dev.Close(long))
	return nil
}

func TestFailedQueryIsNoRemovalWhileSysfsHasTheDevice(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "query EIO"})
	require.Len(t, r.Failures, 2)
	require.Empty(t, r.Failures[0].Is, "firmware answers EIO")
	require.Equal(t, "ibv_query_port standin0 port 1: input/output error", r.Failures[0].Text)
	require.Equal(t, []string{"no device"}, r.Failures[1].Is)
}
