//go:build guest

package native_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// probing is a probe on a real device, with its ledger.
type probing struct {
	t     *testing.T
	led   *ledger.Ledger
	probe verbs.Probe
}

func startProbing(t *testing.T, m verbs.Method, timeout time.Duration) *probing {
	t.Helper()
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	led, f, err := ledger.New("outcomes")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	dev, err := native.New(sysfs.New("/sys")).Open(device, led)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close(time.Second)) })
	probe, err := dev.NewProbe(verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: 1, Method: m}, Timeout: timeout, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
	})
	require.NoError(t, err)
	return &probing{t, led, probe}
}

func (p *probing) round() verbs.Round {
	p.t.Helper()
	r, err := p.probe.Round(0)
	require.NoError(p.t, err)
	return r
}

func (p *probing) counts() ledger.ProbeCounts {
	var s ledger.Contents
	p.led.CopyTo(&s)
	return s.Probes[0].ProbeCounts
}

// The kernel may raise an event for a completion that has already been polled.
func TestNativeBackendCountsAnEventWithoutACompletionAsSpurious(t *testing.T) {
	method := verbs.MethodRCWrite
	if guest.Driver() == "siw" {
		method = verbs.MethodFlush
	}
	p := startProbing(t, method, time.Second)
	require.Equal(t, verbs.OutcomeSuccess, p.round().Outcome)
	guest.InjectCompletion(t, device, 3)
	require.Equal(t, verbs.OutcomeSuccess, p.round().Outcome)
	require.Equal(t, ledger.ProbeCounts{Rounds: 2, Successes: 2, Events: 5, Acked: 5, Spurious: 3}, p.counts())
}

// With the link down the write fails. On drivers that refuse to post it, the verb fails.
func TestNativeBackendSaysWhatFailedWhenTheLinkIsDown(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	p := startProbing(t, verbs.MethodRCWrite, time.Second)
	require.Equal(t, verbs.OutcomeSuccess, p.round().Outcome)
	guest.IP(t, "link", "set", netdev, "down")
	r := p.round()
	t.Logf("with the link down: %s, %s", r.Outcome, r.Status)
	require.Equal(t, verbs.OutcomeError, r.Outcome)
	require.NotEmpty(t, r.Status)
	require.False(t, p.probe.Usable())
	c := p.counts()
	require.Equal(t, ledger.ProbeCounts{Rounds: 2, Successes: 1, Errors: 1, Events: c.Events, Acked: c.Events}, c)
}

// siw of Linux 6.1 flushes every queue pair when its netdev goes down, and therefore also the
// receive that is posted during the pause for the next round. The round must neither miss the
// flush nor count its event as spurious. siw of 6.12 flushes nothing then.
func TestNativeBackendOnSIWReplacesAReceiveFlushedInThePause(t *testing.T) {
	const downs = 20
	guest.RequireDriver(t, "siw")
	p := startProbing(t, verbs.MethodFlush, time.Second)
	require.Equal(t, verbs.OutcomeSuccess, p.round().Outcome)
	for range downs {
		p.prepare()
		guest.IP(t, "link", "set", netdev, "down")
		require.Equal(t, verbs.OutcomeSuccess, p.round().Outcome)
		guest.IP(t, "link", "set", netdev, "up")
	}
	c := p.counts()
	t.Logf("%d events in %d rounds", c.Events, c.Rounds)
	require.Equal(t, ledger.ProbeCounts{Rounds: 1 + downs, Successes: 1 + downs, Events: c.Events, Acked: c.Events}, c)
	require.Equal(t, strings.HasPrefix(kernelRelease(t), "6.1."), c.Events > c.Rounds, "a receive was flushed in a pause")
}

// kernelRelease returns the release of the running kernel, as in "6.1.0-56-amd64".
func kernelRelease(t *testing.T) string {
	t.Helper()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	return unix.ByteSliceToString(u.Release[:])
}

// prepare begins a round and ends it during its pause, so that the queue pair of the next round is ready.
func (p *probing) prepare() {
	p.t.Helper()
	p.probe.Nudge()
	r, err := p.probe.Round(time.Hour)
	require.NoError(p.t, err)
	require.Equal(p.t, verbs.OutcomeCanceled, r.Outcome)
}
