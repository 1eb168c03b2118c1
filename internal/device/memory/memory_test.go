package memory

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const machine = "4d8f0c2b8a7e4b7f9c1d2e3f4a5b6c7d"

func newClock() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

func openMemory(t *testing.T, dir string) *Memory {
	t.Helper()
	m, err := Open(dir, machine, newClock())
	require.NoError(t, err)
	return m
}

func syncMemory(t *testing.T, m *Memory) []Forgotten {
	t.Helper()
	forgotten, err := m.Sync()
	require.NoError(t, err)
	return forgotten
}

func deviceNames(m *Memory) (all []string) {
	for _, d := range m.Devices() {
		all = append(all, d.Name)
	}
	return all
}

var card = Identity{NodeGUID: "b8ce:f603:00d2:0101", PCI: "0000:3b:00.0", Driver: "mlx5_core"}

func TestMemoryOutlivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	require.True(t, m.IsPersistent())
	m.RememberDevice("mlx5_0", card, true)
	m.RememberPort("mlx5_0", 2, 200)
	m.RememberPort("mlx5_0", 1, 400)
	m.RememberPort("mlx5_0", 1, 100) // the greatest rate stays
	syncMemory(t, m)
	later := openMemory(t, dir)
	require.Equal(t, m.Devices(), later.Devices())
	rate, ok := later.Port("mlx5_0", 1)
	require.True(t, ok)
	require.Equal(t, 400.0, rate)
	_, ok = later.Port("mlx5_0", 3)
	require.False(t, ok)
	require.Equal(t, card, later.Devices()[0].Identity)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing unfinished is left")
}

func TestFileIsWrittenOnlyAfterAChange(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	syncMemory(t, m)
	require.NoFileExists(t, filepath.Join(dir, Name))
	m.RememberDevice("mlx5_0", card, true)
	syncMemory(t, m)
	before, err := os.Stat(filepath.Join(dir, Name))
	require.NoError(t, err)
	for range 3 {
		m.RememberDevice("mlx5_0", card, true)
		syncMemory(t, m)
	}
	after, err := os.Stat(filepath.Join(dir, Name))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
}

func TestFileOfAnotherMachineIsIgnored(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	m.RememberDevice("mlx5_0", card, true)
	syncMemory(t, m)
	for _, other := range []string{"0123456789abcdef0123456789abcdef", ""} {
		copied, err := Open(dir, other, newClock())
		require.ErrorIs(t, err, ErrOtherMachine)
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, copied.Devices())
	}
	copied, err := Open(dir, "0123456789abcdef0123456789abcdef", newClock())
	require.ErrorIs(t, err, ErrOtherMachine)
	copied.RememberDevice("mlx5_1", Identity{}, true)
	require.Empty(t, syncMemory(t, copied))
	require.Equal(t, []string{"mlx5_1"}, deviceNames(copied), "what the other machine had is gone")
	_, err = Open(dir, machine, newClock())
	require.ErrorIs(t, err, ErrOtherMachine)
}

func TestDamagedFileBeginsTheMemoryAnew(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "cut": `{"schema":1,"devices":[{"dev`, "null": `{"schema":1,"machine_id":"` + machine + `","devices":[null]}`,
		"newer": `{"schema":2}`, "unsorted": `{"schema":1,"machine_id":"` + machine + `","devices":[{"device":"a","ports":[{"port":2},{"port":1}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o600))
			m, err := Open(dir, machine, newClock())
			require.ErrorContains(t, err, "is ignored, and its devices are not remembered")
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, m.Devices())
			m.RememberDevice("mlx5_0", card, true)
			require.Empty(t, syncMemory(t, m), "the error was returned already")
			require.Equal(t, []string{"mlx5_0"}, deviceNames(openMemory(t, dir)))
		})
	}
}

func TestFileThatIsDamagedWhileThePluginRunsIsReplaced(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	m.RememberDevice("mlx5_0", card, true)
	syncMemory(t, m)
	require.NoError(t, os.WriteFile(filepath.Join(dir, Name), []byte("x"), 0o600))
	forgotten, err := m.Sync()
	require.ErrorContains(t, err, "damaged")
	require.Empty(t, forgotten)
	require.Equal(t, []string{"mlx5_0"}, deviceNames(openMemory(t, dir)))
}

func TestLinkInTheDirectoryIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.WriteFile(target, []byte("kept"), 0o600))
	require.NoError(t, os.Symlink(target, filepath.Join(dir, Name)))
	m, err := Open(dir, machine, newClock())
	require.Error(t, err)
	m.RememberDevice("mlx5_0", card, true)
	syncMemory(t, m)
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
}

func TestTwoPluginsShareOneMemory(t *testing.T) {
	dir := t.TempDir()
	a, b := openMemory(t, dir), openMemory(t, dir)
	a.RememberDevice("mlx5_0", card, true)
	a.RememberPort("mlx5_0", 1, 400)
	syncMemory(t, a)
	b.RememberDevice("mlx5_1", Identity{}, true)
	b.RememberPort("mlx5_0", 2, 100)
	require.Empty(t, syncMemory(t, b))
	require.Empty(t, syncMemory(t, a))
	require.Equal(t, []string{"mlx5_0", "mlx5_1"}, deviceNames(a))
	require.Equal(t, []string{"mlx5_0", "mlx5_1"}, deviceNames(b))
	for _, m := range []*Memory{a, b, openMemory(t, dir)} {
		_, one := m.Port("mlx5_0", 1)
		_, two := m.Port("mlx5_0", 2)
		require.True(t, one && two)
	}
}

func TestWhatAnotherProcessForgetsIsForgotten(t *testing.T) {
	dir := t.TempDir()
	_, err := Forget(dir, "mlx5_0", 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	m := openMemory(t, dir)
	for _, device := range []string{"mlx5_0", "mlx5_1"} {
		m.RememberDevice(device, Identity{}, true)
		m.RememberPort(device, 1, 400)
		m.RememberPort(device, 2, 400)
	}
	syncMemory(t, m)
	there, err := Forget(dir, "mlx5_2", 0)
	require.NoError(t, err)
	require.False(t, there)
	there, err = Forget(dir, "mlx5_1", 2)
	require.NoError(t, err)
	require.True(t, there)
	there, err = Forget(dir, "mlx5_0", 0)
	require.NoError(t, err)
	require.True(t, there)
	require.ElementsMatch(t, []Forgotten{{"mlx5_0", 0}, {"mlx5_1", 2}}, syncMemory(t, m))
	require.Empty(t, syncMemory(t, m))
	require.Equal(t, []string{"mlx5_1"}, deviceNames(m))
	m.RememberPort("mlx5_1", 2, 400) // active for a minute again
	require.Empty(t, syncMemory(t, m))
	_, ok := openMemory(t, dir).Port("mlx5_1", 2)
	require.True(t, ok)
}

func TestOldestDevicesAreDropped(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	for i := range MaxDevices + 10 {
		m.RememberDevice(fmt.Sprintf("vf%03d", i), Identity{}, false)
	}
	m.RememberPort("vf010", 1, 100) // it is the youngest now
	m.RememberDevice("vf999", Identity{}, false)
	syncMemory(t, m)
	all := deviceNames(openMemory(t, dir))
	require.Len(t, all, MaxDevices)
	require.Contains(t, all, "vf010")
	require.NotContains(t, all, "vf011")
	for i := range 100 {
		m.RememberPort("vf999", i+1, 100)
	}
	require.Len(t, m.Devices()[MaxDevices-1].Ports, maxPorts)
}

func TestRenamedDeviceIsRememberedByItsNewName(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	m.RememberDevice("mlx5_0", card, true)
	m.RememberPort("mlx5_0", 1, 400)
	syncMemory(t, m)
	m.Rename("mlx5_0", "rail0")
	m.Rename("mlx5_7", "rail7")
	require.Empty(t, syncMemory(t, m))
	later := openMemory(t, dir)
	require.Equal(t, []string{"rail0"}, deviceNames(later))
	_, ok := later.Port("rail0", 1)
	require.True(t, ok)
}

func TestAnotherCardOfTheNameHasNoRates(t *testing.T) {
	m := New(newClock())
	require.False(t, m.IsPersistent())
	m.RememberDevice("mlx5_0", card, true)
	m.RememberPort("mlx5_0", 1, 400)
	other := card
	other.NodeGUID = "b8ce:f603:00d2:0202"
	m.RememberDevice("mlx5_0", other, true)
	rate, ok := m.Port("mlx5_0", 1)
	require.True(t, ok)
	require.Zero(t, rate)
}

// Of a dual-port card one port is in use. After a reset of the firmware the kernel numbers the functions in another order.
func TestCardsThatExchangeTheirNamesKeepTheirPorts(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	unused, third := card, card
	unused.NodeGUID, unused.PCI = "b8ce:f603:00d2:0102", "0000:3b:00.1"
	third.NodeGUID, third.PCI = "b8ce:f603:00d2:0103", "0000:5e:00.0"
	m.RememberDevice("mlx5_0", card, true)
	m.RememberPort("mlx5_0", 1, 400)
	m.RememberDevice("mlx5_1", unused, true)
	m.RememberDevice("mlx5_2", third, true)
	m.RememberPort("mlx5_2", 1, 200)
	require.Equal(t, []int{400, 0, 200}, ratesOf(m, "mlx5_0", "mlx5_1", "mlx5_2"))
	m.UpdateIdentity("mlx5_0", unused)
	m.UpdateIdentity("mlx5_1", card)
	require.Equal(t, []int{0, 400, 200}, ratesOf(m, "mlx5_0", "mlx5_1", "mlx5_2"))
	m.UpdateIdentity("mlx5_1", third) // the second card is gone, and the third one has its number
	require.Equal(t, []int{0, 200, 400}, ratesOf(m, "mlx5_0", "mlx5_1", "mlx5_2"))
	require.Equal(t, []Identity{unused, third, card}, []Identity{m.Devices()[0].Identity, m.Devices()[1].Identity, m.Devices()[2].Identity})
	syncMemory(t, m)
	require.Equal(t, []int{0, 200, 400}, ratesOf(openMemory(t, dir), "mlx5_0", "mlx5_1", "mlx5_2"))
}

// ratesOf returns the rates of the first ports of devices, 0 for a port that is not remembered.
func ratesOf(m *Memory, devices ...string) (all []int) {
	for _, device := range devices {
		rate, _ := m.Port(device, 1)
		all = append(all, int(rate))
	}
	return all
}

func TestFailedWriteIsRepeated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m, err := Open(dir, machine, newClock())
	require.ErrorIs(t, err, os.ErrNotExist)
	m.RememberDevice("mlx5_0", card, true)
	_, err = m.Sync()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o700))
	syncMemory(t, m)
	require.Equal(t, []string{"mlx5_0"}, deviceNames(openMemory(t, dir)))
}

// The old name would be awaited after the next start, and reported as missing for ever.
func TestOldNameIsRemovedAfterAFailedWrite(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	m.RememberDevice("mlx5_0", card, true)
	m.RememberDevice("mlx5_1", Identity{}, true)
	syncMemory(t, m)
	m.Rename("mlx5_0", "rocep8s0")
	require.True(t, m.Forget("mlx5_1", 0))
	there := maps.Clone(m.file.synced)
	_, next := m.merge(there)
	m.writeAgain(there, next) // as Sync does if the disk is full
	syncMemory(t, m)
	require.Equal(t, []string{"rocep8s0"}, deviceNames(m))
	require.Equal(t, []string{"rocep8s0"}, deviceNames(openMemory(t, dir)))
}

func TestRunWritesAtTheEndAndTellsWhatIsForgotten(t *testing.T) {
	dir := t.TempDir()
	m := openMemory(t, dir)
	m.RememberDevice("mlx5_0", card, true)
	m.RememberDevice("mlx5_1", Identity{}, true)
	syncMemory(t, m)
	_, err := Forget(dir, "mlx5_1", 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	forgotten, done := make(chan Forgotten, 1), make(chan struct{})
	var log bytes.Buffer
	go func() {
		defer close(done)
		m.Run(ctx, func(f Forgotten) { forgotten <- f }, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	m.RequestSync()
	require.Equal(t, Forgotten{Device: "mlx5_1"}, <-forgotten)
	m.RememberDevice("mlx5_2", Identity{}, true)
	cancel()
	<-done
	require.Equal(t, []string{"mlx5_0", "mlx5_2"}, deviceNames(openMemory(t, dir)))
	require.Zero(t, strings.Count(log.String(), "\n"))
}
