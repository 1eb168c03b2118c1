package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/release"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// leftOf returns the remaining duration of a device's release in whole minutes.
func leftOf(t *testing.T, dir, device string) int {
	t.Helper()
	now := clock.Boot()
	set, err := release.Read([]string{dir}, release.BootID(), now)
	require.NoError(t, err)
	until, ok := set.Until(verbs.Found{Name: device}, now)
	if !ok {
		return 0
	}
	return int(time.Duration(until - now).Round(time.Minute).Minutes())
}

// A shorter release by a line in modprobe.d does not shorten the release of an installer.
func TestAnotherReleaseEndsNoneThatLastsLonger(t *testing.T) {
	const all = ""
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	write := func(o releaseFlags) {
		t.Helper()
		o.dir = dir
		require.NoError(t, o.writeRelease())
	}
	write(releaseFlags{device: all, duration: time.Hour})
	write(releaseFlags{device: all, duration: 10 * time.Minute})
	require.Equal(t, 60, leftOf(t, dir, "sim0"))
	write(releaseFlags{device: "sim0", duration: 10 * time.Minute})
	require.Equal(t, 60, leftOf(t, dir, "sim0"), "it is one of all")
	write(releaseFlags{device: "sim0", duration: 2 * time.Hour})
	write(releaseFlags{device: all, duration: 90 * time.Minute})
	require.Equal(t, 120, leftOf(t, dir, "sim0"))
	require.Equal(t, 90, leftOf(t, dir, "sim1"))

	write(releaseFlags{device: "sim1", resume: true})
	require.Zero(t, leftOf(t, dir, "sim1"))
	write(releaseFlags{device: "sim1", duration: 5 * time.Minute})
	require.Equal(t, 5, leftOf(t, dir, "sim1"), "it was resumed")
	write(releaseFlags{device: all, duration: 10 * time.Minute})
	require.Equal(t, 90, leftOf(t, dir, "sim1"), "and is released with all others again")
	write(releaseFlags{resume: true})
	require.Zero(t, leftOf(t, dir, "sim0"))
}

// The plugin reads no releases from such a directory. A command that ended with 0 would let the caller unload the driver below it.
func TestReleaseThatNoPluginReadsFails(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o775))
	o := releaseFlags{dir: dir, duration: time.Minute}
	require.ErrorContains(t, o.writeRelease(), "others may write to "+dir+" (mode 0775)")
	o.resume = true
	require.NoError(t, o.writeRelease())
}
