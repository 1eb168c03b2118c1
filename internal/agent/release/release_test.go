package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	boot   = "a boot"
	now    = int64(5 * time.Hour)
	minute = int64(time.Minute)
)

func foundDevice(name string) verbs.Found { return verbs.Found{Name: name} }

// newDirectory returns a directory like the directory of the status files.
func newDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "release") //nolint:usetesting // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func writeEntry(t *testing.T, dir string, e Entry) {
	t.Helper()
	require.NoError(t, Write(dir, boot, e))
}

// releaseEnd returns the end of a device's release, or 0 if the device is not released.
func releaseEnd(t *testing.T, dir string, f verbs.Found, at int64) int64 {
	t.Helper()
	s, err := Read([]string{dir}, boot, now)
	require.NoError(t, err)
	until, ok := s.Until(f, at)
	require.Equal(t, ok, until > at)
	if !ok {
		return 0
	}
	return until
}

func TestReleaseHoldsUntilItsEndAndNoLonger(t *testing.T) {
	dir := newDirectory(t)
	require.Zero(t, releaseEnd(t, dir, foundDevice("mlx5_0"), now))
	writeEntry(t, dir, Entry{Until: now + minute})
	require.Equal(t, now+minute, releaseEnd(t, dir, foundDevice("mlx5_0"), now))
	require.Equal(t, now+minute, releaseEnd(t, dir, foundDevice("any other"), now+minute-1))
	require.Zero(t, releaseEnd(t, dir, foundDevice("mlx5_0"), now+minute))
	require.NoError(t, Remove(dir))
	require.Zero(t, releaseEnd(t, dir, foundDevice("mlx5_0"), now))
	require.NoError(t, Remove(dir), "there is none any more")
}

func TestLastWordAboutADeviceCounts(t *testing.T) {
	dir := newDirectory(t)
	writeEntry(t, dir, Entry{Device: "mlx5_0", Until: now + minute})
	require.Equal(t, now+minute, releaseEnd(t, dir, foundDevice("mlx5_0"), now))
	require.Zero(t, releaseEnd(t, dir, foundDevice("mlx5_1"), now))
	writeEntry(t, dir, Entry{Until: now + 10*minute})
	require.Equal(t, now+10*minute, releaseEnd(t, dir, foundDevice("mlx5_0"), now), "all devices were released later")
	writeEntry(t, dir, Entry{Device: "mlx5_0"})
	require.Zero(t, releaseEnd(t, dir, foundDevice("mlx5_0"), now), "it was resumed alone")
	require.Equal(t, now+10*minute, releaseEnd(t, dir, foundDevice("mlx5_1"), now))
	writeEntry(t, dir, Entry{Device: "mlx5_0", Until: now + 20*minute})
	require.Equal(t, now+20*minute, releaseEnd(t, dir, foundDevice("mlx5_0"), now))
	require.NoError(t, RemoveDevice(dir, "mlx5_0"))
	require.Equal(t, now+10*minute, releaseEnd(t, dir, foundDevice("mlx5_0"), now))
}

func TestReleasedDeviceIsRecognizedUnderAnotherName(t *testing.T) {
	dir := newDirectory(t)
	function := verbs.Found{Name: "mlx5_0", NodeGUID: "0002:c903:0000:0001", PCI: "0000:3b:00.0"}
	writeEntry(t, dir, Entry{Device: "rocep59s0f0", NodeGUID: function.NodeGUID, PCI: function.PCI, Until: now + minute})
	require.Equal(t, now+minute, releaseEnd(t, dir, function, now), "before udev renames it")
	for _, other := range []verbs.Found{
		{Name: "mlx5_0", NodeGUID: function.NodeGUID, PCI: "0000:3b:00.1"},
		{Name: "mlx5_0", NodeGUID: "0002:c903:0000:0002", PCI: function.PCI}, // as a scalable function
		{Name: "mlx5_0"},
	} {
		require.Zero(t, releaseEnd(t, dir, other, now), other)
	}
	writeEntry(t, dir, Entry{Device: "vf", NodeGUID: "0000:0000:0000:0000", Until: now + minute})
	require.Zero(t, releaseEnd(t, dir, verbs.Found{Name: "vf2", NodeGUID: "0000:0000:0000:0000"}, now), "no GUID was given to it")
}

func TestReleaseOfAnotherBootOrDayIsVoid(t *testing.T) {
	dir := newDirectory(t)
	require.NoError(t, Write(dir, "the boot before", Entry{Until: now + minute}))
	require.Zero(t, releaseEnd(t, dir, foundDevice("mlx5_0"), now))
	writeEntry(t, dir, Entry{Until: now + int64(MaxDuration) + 1})
	s, err := Read([]string{dir}, boot, now)
	require.ErrorContains(t, err, "it releases for more than 24h0m0s")
	require.False(t, s.Active(now))
}

func TestFileOfAStrangerReleasesNothing(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(t *testing.T, dir, file string)
	}{
		{"a directory that others may write to", "others may write", func(t *testing.T, dir, _ string) {
			require.NoError(t, os.Chmod(dir, 0o777))
		}},
		{"no JSON", "invalid character", func(t *testing.T, _, file string) {
			require.NoError(t, os.WriteFile(file, []byte("until tomorrow"), 0o600))
		}},
		{"another schema", "its schema is 9", func(t *testing.T, _, file string) {
			require.NoError(t, os.WriteFile(file, []byte(`{"schema": 9}`), 0o600))
		}},
		{"the file of another device", `it is about the device ""`, func(t *testing.T, _, file string) {
			require.NoError(t, os.Rename(file, file+":mlx5_0"))
		}},
		{"a link", "too many levels of symbolic links", func(t *testing.T, dir, file string) {
			require.NoError(t, os.Rename(file, filepath.Join(dir, "elsewhere")))
			require.NoError(t, os.Symlink("elsewhere", file))
		}},
		{"a directory", "is no regular file", func(t *testing.T, _, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newDirectory(t)
			writeEntry(t, dir, Entry{Until: now + minute})
			c.change(t, dir, filepath.Join(dir, "released"))
			s, err := Read([]string{dir}, boot, now)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			require.False(t, s.Active(now))
		})
	}
}

func TestUserWhoMayNotWriteReleasesNothing(t *testing.T) {
	dir := newDirectory(t)
	require.NoError(t, os.Chmod(dir, 0o555))
	var read, written error
	asNobody(func() {
		_, read = os.ReadDir(dir)
		written = Write(dir, boot, Entry{Until: now + minute})
	})
	require.NoError(t, read)
	require.ErrorIs(t, written, os.ErrPermission)
}

// asNobody calls f with the rights of a user who cannot access the files of others, if the test runs as root. A thread
// whose file system user is not root has no capability that bypasses file modes (setfsuid(2), capabilities(7)).
func asNobody(f func()) {
	const nobody = 65534
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			_, _ = unix.SetfsuidRetUid(nobody) // it never fails; the read and the write of the test show what it did
		}
		f()
	}()
	<-done
}

// testClock is the CLOCK_BOOTTIME of a test in a synctest bubble.
type testClock struct{ began time.Time }

func (m testClock) now() int64 { return now + int64(time.Since(m.began)) }

func TestKeeperEndsTheReleaseWhenTheTimeIsOver(t *testing.T) {
	dir := newDirectory(t)
	synctest.Test(t, func(t *testing.T) {
		m := testClock{time.Now()}
		writeEntry(t, dir, Entry{Until: now + minute})
		// A keeper that starts during the release applies it. The same happens when a plugin is restarted.
		for range 2 {
			k := NewKeeper(Config{Dirs: []string{dir}, Now: m.now, Boot: boot})
			_, ok := k.Until(foundDevice("mlx5_0"))
			require.True(t, ok)
		}
		k := NewKeeper(Config{Dirs: []string{dir}, Now: m.now, Boot: boot})
		ctx, cancel := context.WithCancel(t.Context())
		var ended time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.Run(ctx, false, func() {
				if _, ok := k.Until(foundDevice("mlx5_0")); !ok && ended == 0 {
					ended = time.Since(m.began)
				}
			})
		}()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.GreaterOrEqual(t, ended, time.Minute, "never before the time is over")
		require.Less(t, ended, time.Minute+10*time.Second)

		// The files are not read again until Reload is called.
		ended = 0
		writeEntry(t, dir, Entry{Until: m.now() + minute})
		time.Sleep(time.Hour)
		_, ok := k.Until(foundDevice("mlx5_0"))
		require.False(t, ok)
		writeEntry(t, dir, Entry{Until: m.now() + minute})
		k.Reload()
		_, ok = k.Until(foundDevice("mlx5_0"))
		require.True(t, ok)
		require.NoError(t, Remove(dir)) // by hand
		time.Sleep(10 * time.Second)
		_, ok = k.Until(foundDevice("mlx5_0"))
		require.False(t, ok)
		cancel()
		<-done
	})
}

func TestPollingKeeperNoticesAReleaseByItself(t *testing.T) {
	dir := newDirectory(t)
	synctest.Test(t, func(t *testing.T) {
		m := testClock{time.Now()}
		k := NewKeeper(Config{Dirs: []string{filepath.Join(dir, "missing"), dir}, Now: m.now, Boot: boot})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.Run(ctx, true, func() {})
		}()
		time.Sleep(time.Minute)
		writeEntry(t, dir, Entry{Until: m.now() + minute})
		time.Sleep(10 * time.Second)
		_, ok := k.Until(foundDevice("mlx5_0"))
		require.True(t, ok)
		cancel()
		<-done
	})
}

// plugin is a PluginState whose devices the test closes.
type plugin struct {
	mu      sync.Mutex
	devices []Device
	reviews int
	err     error
}

func (p *plugin) ApplyReleases(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reviews++
	return p.err
}

func (p *plugin) ReleasedDevices() []Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Device(nil), p.devices...)
}

func (p *plugin) set(err error, devices ...Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices, p.err = devices, err
}

func (p *plugin) reviewed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reviews > 0
}

// startServer runs a Server in a directory until the returned function is called.
func startServer(t *testing.T, dir string, p *plugin) (stop func()) {
	t.Helper()
	s, err := Listen(dir, p)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		require.NoError(t, s.Close())
	})
	t.Cleanup(stop)
	return stop
}

func TestCommandReturnsWhenTheWorkersHaveLetGo(t *testing.T) {
	dir := newDirectory(t)
	p := &plugin{devices: []Device{{Device: "mlx5_0", Open: true}}}
	startServer(t, dir, p)
	asked := make(chan []Plugin)
	go func() { asked <- AskPlugins(t.Context(), dir) }()
	require.Eventually(t, p.reviewed, time.Minute, time.Millisecond)
	select {
	case <-asked:
		t.Fatal("the device is still open")
	default:
	}
	p.set(nil, Device{Device: "mlx5_0"}, Device{Device: "mlx5_1", Open: true, Held: "the kernel holds it"})
	got := <-asked
	require.Len(t, got, 1)
	require.NoError(t, got[0].Err)
	require.Equal(t, os.Getpid(), got[0].PID)
	require.Equal(t, []Device{{Device: "mlx5_0"}, {Device: "mlx5_1", Open: true, Held: "the kernel holds it"}}, got[0].Released)
}

func TestCommandThatWaitsTooLongSaysSo(t *testing.T) {
	dir := newDirectory(t)
	startServer(t, dir, &plugin{devices: []Device{{Device: "mlx5_0", Open: true}}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got := AskPlugins(ctx, dir)
	require.Len(t, got, 1)
	require.ErrorContains(t, got[0].Err, "it has not closed all within the time")
}

func TestPluginThatEndsHasNothingOpen(t *testing.T) {
	dir := newDirectory(t)
	p := &plugin{err: errors.New("it is stopping")}
	stop := startServer(t, dir, p)
	asked := make(chan []Plugin)
	go func() { asked <- AskPlugins(t.Context(), dir) }()
	require.Eventually(t, p.reviewed, time.Minute, time.Millisecond)
	stop()
	require.Empty(t, <-asked)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSocketOfAKilledPluginIsNobody(t *testing.T) {
	dir := newDirectory(t)
	s, err := Listen(dir, &plugin{})
	require.NoError(t, err)
	s.listener.SetUnlinkOnClose(false) // as a kill leaves it
	require.NoError(t, s.Close())
	require.FileExists(t, s.path)
	require.Empty(t, AskPlugins(t.Context(), dir))
	require.NoError(t, os.Rename(s.path, filepath.Join(dir, "1-1.sock")))
	startServer(t, dir, &plugin{})
	require.NoFileExists(t, filepath.Join(dir, "1-1.sock"), "the next plugin removes it")
	require.Len(t, AskPlugins(t.Context(), dir), 1)
}
