package verbstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/verbstest"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
)

// recorder stands in for a test that ends when end is called.
type recorder struct {
	failures []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

func openTracked(t *testing.T, r *recorder) verbs.Device {
	t.Helper()
	w, err := devices.Load(devices.Options{Profile: "roce2"})
	require.NoError(t, err)
	led, file, err := ledger.New("track")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(func() { require.NoError(t, led.Close()) })
	dev, err := verbstest.Track(r, devices.New(w)).Open("sim1", led)
	require.NoError(t, err)
	return dev
}

func newFlushProbe(t *testing.T, dev verbs.Device) verbs.Probe {
	t.Helper()
	p, err := dev.NewProbe(verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodFlush}, Timeout: time.Second, AckBatch: 1, GIDIndex: -1, PKeyIndex: -1,
	})
	require.NoError(t, err)
	return p
}

func TestADeviceLeftOpenIsReportedWithItsOrigin(t *testing.T) {
	var r recorder
	dev := openTracked(t, &r)
	r.end()
	require.Len(t, r.failures, 1)
	require.Contains(t, r.failures[0], "device sim1 was not closed")
	require.Regexp(t, `made at\n\t\S*openTracked\n`, r.failures[0])
	require.NoError(t, dev.Close(time.Second))
}

func TestAProbeLeftOpenIsReportedWithItsOrigin(t *testing.T) {
	var r recorder
	dev := openTracked(t, &r)
	newFlushProbe(t, dev)
	r.end()
	require.Len(t, r.failures, 2)
	all := r.failures[0] + r.failures[1]
	require.Contains(t, all, "probe sim1 port 1 vector 0 flush was not closed")
	require.Regexp(t, `made at\n\t\S*newFlushProbe\n`, all)
	require.NoError(t, dev.Close(time.Second))
}

func TestClosedObjectsAreNotReported(t *testing.T) {
	var r recorder
	dev := openTracked(t, &r)
	require.NoError(t, newFlushProbe(t, dev).Close(time.Second))
	newFlushProbe(t, dev) // closed by its device
	require.NoError(t, dev.Close(time.Second))
	r.end()
	require.Empty(t, r.failures)
}
