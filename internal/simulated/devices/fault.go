package devices

import (
	"maps"
	"slices"
	"syscall"

	"rdma_events/internal/device/verbs"
)

// faultKind is a kind of fault. The value is its name in scenarios.
type faultKind string

// The kinds of faults.
const (
	crash           faultKind = "crash"
	hangAck         faultKind = "hang_ack"
	hangQuery       faultKind = "hang_query"
	hangRound       faultKind = "hang_round"
	hangFabric      faultKind = "hang_fabric"
	stuckClose      faultKind = "stuck_close"
	lostEvent       faultKind = "lost_event"
	lostCompletion  faultKind = "lost_completion"
	completionError faultKind = "completion_error"
	spurious        faultKind = "spurious"
	late            faultKind = "late"
	disturbed       faultKind = "disturbed"
	slow            faultKind = "slow"
	openError       faultKind = "open_error"
	removed         faultKind = "removed"
	renamed         faultKind = "renamed"

	tracerRefused faultKind = "tracer_refused"
	tracerCrash   faultKind = "tracer_crash"
	tracerLost    faultKind = "tracer_lost"
	tracerFull    faultKind = "tracer_full"
)

// ofTracer reports whether a fault concerns the tracer of the host, not a device.
func (k faultKind) ofTracer() bool {
	return k == tracerRefused || k == tracerCrash || k == tracerLost || k == tracerFull
}

// fault is a failure of a device, or of the tracer, for a period.
type fault struct {
	target
	window
	kind   faultKind
	vector int // -1: all
	index  int // of its table, for errors

	signal syscall.Signal // crash, tracer_crash
	status int            // completion_error, enum ibv_wc_status
	factor float64        // slow
	err    error          // open_error, tracer_refused
	to     string         // renamed
}

// faultReaders returns for each kind the function that reads its keys, except kind, device,
// at, every and times.
func faultReaders() map[faultKind]func(*table, *fault) {
	period := func(t *table, f *fault) { f.window = t.window("for") }
	port := func(t *table, f *fault) {
		period(t, f)
		f.port = int(t.integer("port", 0, 1, 255))
	}
	vector := func(t *table, f *fault) {
		port(t, f)
		f.vector = int(t.integer("vector", -1, 0, 65535))
	}
	dies := func(t *table, f *fault) {
		f.schedule = t.schedule("")
		f.signal = deathSignals()[choiceFrom(t, "signal", "SIGSEGV", deathSignals())]
	}
	return map[faultKind]func(*table, *fault){
		crash:          dies,
		hangAck:        period,
		hangQuery:      port,
		hangRound:      vector,
		hangFabric:     port,
		stuckClose:     period,
		lostEvent:      vector,
		lostCompletion: vector,
		completionError: func(t *table, f *fault) {
			vector(t, f)
			f.status, _ = verbs.ParseCompletionStatus(t.choice("status", "wr_flush_err", completionStatuses()))
		},
		spurious:  vector,
		late:      vector,
		disturbed: vector,
		slow: func(t *table, f *fault) {
			vector(t, f)
			f.factor = t.number("factor", 100, 1, 1e6)
		},
		openError: func(t *table, f *fault) {
			period(t, f)
			f.err = openErrors()[choiceFrom(t, "error", "no_permission", openErrors())]
		},
		removed: period,
		renamed: func(t *table, f *fault) {
			period(t, f)
			f.to = t.text("to", "")
		},
		tracerRefused: func(t *table, f *fault) {
			period(t, f)
			f.err = tracerErrors()[choiceFrom(t, "error", "no_permission", tracerErrors())]
		},
		tracerCrash: dies,
		tracerLost:  period,
		tracerFull:  period,
	}
}

func readFault(t *table) fault {
	readers := faultReaders()
	f := fault{kind: choiceFrom(t, "kind", "", readers), vector: -1, index: t.index}
	if !f.kind.ofTracer() {
		f.target = readTarget(t, false)
	}
	if read := readers[f.kind]; read != nil {
		read(t, &f)
	}
	if f.kind == renamed && (f.to == "" || len(f.to) > 63) {
		t.fail("to", "is %q; allowed: the new name, up to 63 characters", f.to)
	}
	return f
}

// choiceFrom reads a key whose value must be a key of allowed.
func choiceFrom[K ~string, V any](t *table, key, fallback string, allowed map[K]V) K {
	var names []string
	for _, k := range slices.Sorted(maps.Keys(allowed)) {
		names = append(names, string(k))
	}
	return K(t.choice(key, fallback, names))
}

func deathSignals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"SIGABRT": syscall.SIGABRT, "SIGBUS": syscall.SIGBUS,
		"SIGKILL": syscall.SIGKILL, "SIGSEGV": syscall.SIGSEGV,
	}
}

func openErrors() map[string]error {
	return map[string]error{
		"no_library": verbs.ErrNoLibrary, "no_device": verbs.ErrNoDevice,
		"no_permission": verbs.ErrPermission, "unsupported": verbs.ErrUnsupported,
		"limit": verbs.ErrLimit, "excluded_netns": verbs.ErrExcludedNetns,
		"recovering": verbs.ErrRecovering,
	}
}

// tracerErrors returns the errors with which a tracer may be refused.
func tracerErrors() map[string]error {
	return map[string]error{
		"no_device": verbs.ErrNoDevice, "no_permission": verbs.ErrPermission, "unsupported": verbs.ErrUnsupported,
	}
}

// completionStatuses returns the completion statuses of enum ibv_wc_status that are possible
// on a queue pair connected to itself.
func completionStatuses() []string {
	return []string{
		"loc_len_err", "loc_qp_op_err", "loc_prot_err", "wr_flush_err", "bad_resp_err",
		"loc_access_err", "rem_inv_req_err", "rem_access_err", "rem_op_err", "retry_exc_err",
		"rnr_retry_exc_err", "fatal_err", "resp_timeout_err", "general_err",
	}
}
