package devices

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

const second = int64(time.Second)

// fakeTime returns the time of a testing/synctest bubble.
func fakeTime() int64 { return time.Now().UnixNano() }

// scene is a world with one open device, mostly in a synctest bubble.
type scene struct {
	*testing.T
	w   *World
	dev verbs.Device
	led *ledger.Ledger
	die []syscall.Signal
}

// newScene loads a world with a scenario and opens sim0.
func newScene(t *testing.T, profile, text string) *scene {
	t.Helper()
	s := &scene{T: t}
	s.w = mustLoad(t, Options{
		Profile: profile, Scenario: writeScenario(t, text), Seed: 1, Clock: fakeTime,
		Die: func(sig syscall.Signal) { s.die = append(s.die, sig) },
	})
	s.dev, s.led = s.open("sim0")
	return s
}

func mustLoad(t *testing.T, o Options) *World {
	t.Helper()
	w, err := Load(o)
	require.NoError(t, err)
	return w
}

func writeScenario(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scene.toml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func newLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	led, file, err := ledger.New("sim")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(func() { require.NoError(t, led.Close()) })
	return led
}

func (s *scene) open(name string) (verbs.Device, *ledger.Ledger) {
	s.Helper()
	led := newLedger(s.T)
	dev, err := New(s.w).Open(name, led)
	require.NoError(s, err)
	s.Cleanup(func() { _ = dev.Close(0) }) // most tests have closed it
	return dev, led
}

// readRuns returns the runs of the next ReadEvents call, which waits at most for wait.
func (s *scene) readRuns(wait time.Duration) []verbs.Run {
	s.Helper()
	runs := make([]verbs.Run, 64)
	n, err := s.dev.ReadEvents(runs, wait)
	require.NoError(s, err)
	return runs[:n]
}

func (s *scene) probe(m verbs.Method, ackBatch int) verbs.Probe {
	s.Helper()
	p, err := s.dev.NewProbe(verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: 1, Method: m}, Timeout: 500 * time.Millisecond, AckBatch: ackBatch, GIDIndex: -1, PKeyIndex: -1,
	})
	require.NoError(s, err)
	return p
}

func (s *scene) round(p verbs.Probe) verbs.Round {
	s.Helper()
	r, err := p.Round(0)
	require.NoError(s, err)
	return r
}

func (s *scene) snapshot() *ledger.Contents {
	var snap ledger.Contents
	s.led.CopyTo(&snap)
	return &snap
}

// counts returns the ledger's counts of the only probe.
func (s *scene) counts() ledger.ProbeCounts {
	s.Helper()
	require.Len(s, s.snapshot().Probes, 1)
	return s.snapshot().Probes[0].ProbeCounts
}

// shortRuns returns the runs with only their type, port and count, which most tests compare.
func shortRuns(runs []verbs.Run) []verbs.Run {
	var short []verbs.Run
	for _, r := range runs {
		short = append(short, verbs.Run{Type: r.Type, Port: r.Port, Count: r.Count})
	}
	return short
}
