package tracer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/status"
)

// recordingHandler is a Handler that records its calls.
type recordingHandler struct{ calls []string }

func (n *recordingHandler) note(format string, args ...any) {
	n.calls = append(n.calls, fmt.Sprintf(format, args...))
}

func (n *recordingHandler) Attached(a trace.Attached, s status.Status) {
	n.note("attached by %s, %s", a.Hooks, s.State)
}
func (n *recordingHandler) Update(s *trace.Update) { n.note("snapshot %d", s.Mono) }
func (n *recordingHandler) Ended(e status.End)     { n.note("ended %s", e.Reason) }
func (n *recordingHandler) Status(s status.Status) { n.note("status %s", s.State) }

func TestMessagesReachTheHandlerInOrder(t *testing.T) {
	n := &recordingHandler{}
	c := &contract{handler: n}
	a, shared, err := c.Begin()
	require.NoError(t, err)
	require.Nil(t, shared, "a tracer shares no file")
	running := status.Status{State: status.StateRunning, PID: 7}
	c.Status(status.Status{State: status.StateStarting})
	a.Take(message{attached: &trace.Attached{Hooks: "kprobe"}}, running)
	a.Take(message{update: &trace.Update{Mono: 1}}, running)
	a.Take(message{}, running)
	a.Take(message{update: &trace.Update{Mono: 2}}, running)
	a.Take(message{end: &status.End{}}, running)
	a.Ended(status.End{Reason: status.ReasonRemoved})
	require.Equal(t, []string{
		"status starting", "attached by kprobe, running", "snapshot 1", "snapshot 2", "ended removed",
	}, n.calls)
	require.Equal(t, process.Call{}, a.Busy(nil))
}

func TestAMessageSaysWhetherItsTracerRunsOrEnds(t *testing.T) {
	var a attempt
	require.Equal(t, process.Sign{}, a.Sign(message{}))
	require.Equal(t, process.Sign{}, a.Sign(message{update: &trace.Update{}}))
	require.Equal(t, process.Sign{Running: true}, a.Sign(message{attached: &trace.Attached{}}))
	for retry, reasons := range map[process.Retry][]status.Reason{
		process.Slowly: {status.ReasonNoDevice, status.ReasonNoPermission, status.ReasonUnsupported, status.ReasonLimit},
		process.Soon:   {status.ReasonRemoved, status.ReasonCrashed},
	} {
		for _, why := range reasons {
			end := &status.End{Reason: why, Message: "m"}
			require.Equal(t, process.Sign{End: end, Retry: retry}, a.Sign(message{end: end}))
		}
	}
}

func TestAnErrorOfTheSourceIsAReason(t *testing.T) {
	for want, errs := range map[status.Reason][]error{
		status.ReasonOK:           {trace.ErrClosed},
		status.ReasonNoPermission: {trace.ErrPermission},
		status.ReasonUnsupported:  {trace.ErrUnsupported},
		status.ReasonNoDevice:     {trace.ErrNoDevice},
		status.ReasonRemoved:      {trace.ErrUnloaded},
		status.ReasonLimit:        {unix.EMFILE, unix.ENFILE, unix.ENOMEM},
		status.ReasonCrashed:      {errors.New("another"), unix.EINVAL},
	} {
		for _, err := range errs {
			got := EndOf(fmt.Errorf("attach: %w", err))
			require.Equal(t, status.End{Reason: want, Message: "tracer: attach: " + err.Error()}, got)
		}
	}
}

func TestAHostTakesTheReasonsOfATracerAlone(t *testing.T) {
	for _, kept := range []status.Reason{
		status.ReasonNoPermission, status.ReasonUnsupported, status.ReasonNoDevice, status.ReasonRemoved, status.ReasonLimit,
		status.ReasonCrashed,
	} {
		e := status.End{Reason: kept, Message: "m"}
		require.Equal(t, e, cleanEnd(e))
	}
	for _, odd := range []status.Reason{"", "of my own", status.ReasonOK, status.ReasonRenamed, status.ReasonStuck} {
		require.Equal(t, status.ReasonCrashed, cleanEnd(status.End{Reason: odd, Message: "m"}).Reason)
	}
	require.Len(t, cleanEnd(status.End{Message: strings.Repeat("m", 5000)}).Message, 1024)
	require.Equal(t, "a b", cleanEnd(status.End{Message: "\na\nb\n"}).Message)
	require.Equal(t, "tracer has ended without a reason", cleanEnd(status.End{Message: "\n"}).Message)
}

func TestSettingsAreReadAsTheyWereWritten(t *testing.T) {
	for text, want := range map[string]Settings{
		`{"hooks":""}`:       {},
		`{"hooks":"kprobe"}`: {Hooks: HooksKprobe},
		`{"hooks":"kprobe","reads":["/etc/a: b.toml","/etc/\u003cä\u003e"]}`: {
			Hooks: HooksKprobe, Reads: []string{"/etc/a: b.toml", "/etc/<ä>"},
		},
	} {
		require.Equal(t, text, want.encode())
		got, err := parseSettings(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestOtherSettingsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "EOF",
		"kprobe":                         "invalid character",
		"{}":                             "not as a host",
		`{"hooks":"kprobe"} `:            "not as a host",
		`{"hooks":"kprobe"}{}`:           "not as a host",
		`{"Hooks":"kprobe"}`:             "not as a host",
		`{"hooks":"kprobe","x":1}`:       "not as a host",
		`{"hooks":"x","hooks":"kprobe"}`: "not as a host",
		`{"hooks":"kprobe","reads":[]}`:  "not as a host",
		`{"hooks":"everything"}`:         `hooks = "everything" is not allowed`,
		`{"hooks":"kprobe","reads":["etc/a.toml"]}`:                            "without its whole path",
		`{"hooks":"kprobe","reads":["/etc/\u0000"]}`:                           "without its whole path",
		`{"hooks":"kprobe","reads":["/a"` + strings.Repeat(`,"/a"`, 16) + `]}`: "17 files are too many",
		strings.Repeat(" ", maxSettings+1):                                     "too long",
	} {
		_, err := parseSettings(text)
		require.ErrorContains(t, err, "parse RDMA_EVENTS_TRACE: ", "%q", text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestATracerHasItsOwnTimeToStart(t *testing.T) {
	require.Equal(t, 15*time.Second, startLimit)
	require.Greater(t, startLimit, process.DefaultTiming().Start)
}
