package main

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health"
	"rdma_events/internal/agent/statusfile"
)

// writeStatus makes this process report a status as a plugin does, for the rest of the test. It returns the directory.
func writeStatus(t *testing.T, s *health.Status) string {
	t.Helper()
	dir := t.TempDir()
	w, err := statusfile.NewWriter(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	w.Put(s, nil)
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		return err == nil && len(files) == 1
	}, time.Minute, time.Millisecond)
	return dir
}

func TestStatusEndsAsHealthDoes(t *testing.T) {
	warning := health.Problem{ID: "link-slow", Severity: alerts.Warning, Device: "mlx5_0", Port: 1}
	critical := health.Problem{ID: "port-down", Severity: alerts.Critical, Device: "mlx5_0", Port: 1}
	pending := health.Pending{Device: "mlx5_1", Text: "the device is not open"}
	for name, c := range map[string]struct {
		problems []health.Problem
		pending  []health.Pending
		want     int
	}{
		"no problem":                    {want: exitOK},
		"a warning":                     {problems: []health.Problem{warning}, want: exitWarning},
		"a critical problem":            {problems: []health.Problem{critical}, want: exitFailed},
		"something is pending":          {pending: []health.Pending{pending}, want: exitUnknown},
		"a warning, something pends":    {[]health.Problem{warning}, []health.Pending{pending}, exitUnknown},
		"a critical one, another pends": {[]health.Problem{critical}, []health.Pending{pending}, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeStatus(t, &health.Status{
				Schema: health.Schema, Host: "gpu-17", Time: time.Now(), Source: health.SourcePlugin,
				Devices:  []health.Device{{Device: "mlx5_0", Present: true, Open: true, Reason: "ok"}, {Device: "mlx5_1", Present: true, Reason: "starting"}},
				Problems: append([]health.Problem{}, c.problems...), Pending: c.pending,
			})
			var text strings.Builder
			require.Equal(t, c.want, showStatus([]string{"-dir", dir}, &text, io.Discard), text.String())
			require.Equal(t, c.want, showHealth([]string{"-dir", dir}, io.Discard, io.Discard))
			if len(c.pending) > 0 {
				require.Contains(t, text.String(), "pending   mlx5_1: the device is not open")
			}
			if c.want == exitUnknown && len(c.problems) == 0 {
				require.Equal(t, exitOK, showStatus([]string{"-dir", dir, "-device", "mlx5_0"}, io.Discard, io.Discard), "the others do not matter")
			}
		})
	}
}

// Without a plugin, a host without devices is suspicious. It is worse if the configuration expects some.
func TestLookThatFindsNoDevicesEndsWithAProblem(t *testing.T) {
	tooFew := health.Problem{ID: "devices-too-few", Severity: alerts.Critical}
	for want, problems := range map[int][]health.Problem{exitWarning: {}, exitFailed: {tooFew}} {
		dir := writeStatus(t, &health.Status{
			Schema: health.Schema, Host: "gpu-17", Time: time.Now(), Source: health.SourceLook, Devices: []health.Device{}, Problems: problems,
		})
		require.Equal(t, want, showStatus([]string{"-dir", dir}, io.Discard, io.Discard))
	}
}
