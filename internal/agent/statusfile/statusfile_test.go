package statusfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/sys/clock"
)

// writeStatus writes one status with a Writer, and returns the path of the file.
func writeStatus(t *testing.T, dir string, s *health.Status) string {
	t.Helper()
	w, err := NewWriter(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, w.writeFile(fileContent{Status: *s}))
	return w.path
}

func newStatus(device string) *health.Status {
	return &health.Status{Schema: health.Schema, Host: "gpu-17", Devices: []health.Device{{Device: device}}, Problems: []health.Problem{}}
}

// changeProcess changes the identity of the process in a file.
func changeProcess(t *testing.T, path string, how func(*writingProcess)) {
	t.Helper()
	r, err := readFile(path)
	require.NoError(t, err)
	how(&r.Process)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o644))
}

func TestAStatusIsReadWhileItsPluginRuns(t *testing.T) {
	dir := t.TempDir()
	path := writeStatus(t, dir, newStatus("mlx5_0"))
	found, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, "mlx5_0", found.Devices[0].Device)
	require.Len(t, found.Plugins, 1)
	require.Equal(t, os.Getpid(), found.Plugins[0].PID)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
}

func TestAStaleStatusIsNotUsed(t *testing.T) {
	const interval = int64(time.Minute)
	for _, tt := range []struct {
		name string
		how  func(*writingProcess)
		want string // part of the error; "": the status is used
	}{
		{"three intervals ago, nearly", func(w *writingProcess) {
			w.IntervalNS, w.WrittenNS = interval, w.WrittenNS-3*interval+int64(30*time.Second)
		}, ""},
		{"more than three intervals ago", func(w *writingProcess) {
			w.IntervalNS, w.WrittenNS = interval, w.WrittenNS-3*interval-int64(30*time.Second)
		}, "reported 3m3"},
		{"the first one", func(w *writingProcess) { w.WrittenNS -= 9 * interval }, ""},
		{"the first one, long ago", func(w *writingProcess) { w.WrittenNS -= 10*interval + int64(30*time.Second) }, "reported 10m3"},
		{"short intervals", func(w *writingProcess) { w.IntervalNS, w.WrittenNS = 1, w.WrittenNS-int64(30*time.Second) }, ""},
		{"an hour ago, of which the host was suspended for most", func(w *writingProcess) {
			asleep := *w.SuspendedNS - int64(time.Hour-30*time.Second)
			w.IntervalNS, w.WrittenNS, w.SuspendedNS = interval, w.WrittenNS-int64(time.Hour), &asleep
		}, ""},
		{"before a boot", func(w *writingProcess) { w.Namespace, w.WrittenNS = 1, clock.Boot()+int64(time.Hour) }, "before this host started"},
		{"another process of its PID", func(w *writingProcess) { w.StartTicks++ }, "has ended"},
		{"another PID namespace, where it may run", func(w *writingProcess) { w.Namespace, w.StartTicks = 1, 1 }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			changeProcess(t, writeStatus(t, dir, newStatus("mlx5_0")), tt.how)
			_, err := Read(dir)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrNone)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// Two plugins watch different devices, and one of them is stopped. The other one's status says nothing about its devices.
func TestSilentPluginBesideAnotherIsPending(t *testing.T) {
	parent := os.Getppid()
	for name, tt := range map[string]struct {
		how  func(*writingProcess)
		want []health.Pending
	}{
		"it exists":                   {func(*writingProcess) {}, []health.Pending{{Text: fmt.Sprintf("the plugin with PID %d reported 20m0s ago", parent)}}},
		"it has ended":                {func(w *writingProcess) { w.StartTicks++ }, nil},
		"it is in another namespace":  {func(w *writingProcess) { w.Namespace = 1 }, nil},
		"it reported before the boot": {func(w *writingProcess) { w.WrittenNS = clock.Boot() + int64(time.Hour) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			other := filepath.Join(dir, "other"+suffix)
			require.NoError(t, os.Rename(writeStatus(t, dir, newStatus("mlx5_1")), other))
			writeStatus(t, dir, newStatus("mlx5_0"))
			changeProcess(t, other, func(w *writingProcess) {
				started, err := readStartTicks(parent)
				require.NoError(t, err)
				w.PID, w.StartTicks, w.WrittenNS = parent, started, w.WrittenNS-int64(20*time.Minute)
				tt.how(w)
			})
			found, err := Read(dir)
			require.NoError(t, err)
			require.Len(t, found.Devices, 1)
			require.Equal(t, tt.want, found.Pending)
		})
	}
}

func TestTheFilesOfKilledPluginsAreRemovedByTheNext(t *testing.T) {
	dir := t.TempDir()
	ended := exec.CommandContext(t.Context(), "true")
	require.NoError(t, ended.Run())
	for name, how := range map[string]func(*writingProcess){
		"1-1.json": func(w *writingProcess) { w.PID = ended.Process.Pid },
		"1-2.json": func(w *writingProcess) { w.Namespace, w.WrittenNS = 1, clock.Boot()-int64(2*time.Hour) },
		"1-3.json": func(w *writingProcess) { w.Namespace = 1 },
	} {
		path := writeStatus(t, dir, newStatus(name))
		changeProcess(t, path, how)
		require.NoError(t, os.Rename(path, filepath.Join(dir, name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.json"), []byte("{}"), 0o644))
	unfinishedFile := filepath.Join(dir, "1-1.json.new123")
	require.NoError(t, os.WriteFile(unfinishedFile, nil, 0o644))
	require.NoError(t, os.Chtimes(unfinishedFile, time.Time{}, time.Now().Add(-time.Hour)))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo.json"), 0o644))
	writeStatus(t, dir, newStatus("own"))
	here, err := pidNamespace()
	require.NoError(t, err)
	removeStaleFiles(dir, here)
	require.NoFileExists(t, unfinishedFile)
	left, err := filepath.Glob(filepath.Join(dir, "1-*.json"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "1-3.json")}, left)
	require.FileExists(t, filepath.Join(dir, "other.json"))
	require.FileExists(t, filepath.Join(dir, "fifo.json"))
	found, err := Read(dir)
	require.NoError(t, err, "a file that is no status silences no other")
	require.Len(t, found.Devices, 2)
}

func TestRunWritesTheLastStatusAndRemovesItAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWriter(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	w.Put(newStatus("mlx5_0"), nil)
	w.Put(newStatus("mlx5_1"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	require.Eventually(t, func() bool {
		found, err := Read(dir)
		return err == nil && found.Devices[0].Device == "mlx5_1"
	}, 10*time.Second, time.Millisecond)
	cancel()
	<-done
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A plugin that runs as root may write to a directory that belongs to Telegraf's user.
func TestALinkInTheDirectoryIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.WriteFile(target, []byte("kept"), 0o600))
	w, err := NewWriter(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for _, path := range []string{w.path, w.path + tempMarker} {
		require.NoError(t, os.Symlink(target, path))
	}
	require.NoError(t, w.writeFile(fileContent{Status: *newStatus("mlx5_0")}))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
	info, err := os.Lstat(w.path)
	require.NoError(t, err)
	require.True(t, info.Mode().IsRegular())
}

func TestTheFirstOfSeveralErrorsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		dir := filepath.Join(t.TempDir(), "gone")
		w, err := NewWriter(dir, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.Run(ctx)
		put := func() {
			w.Put(newStatus("mlx5_0"), nil)
			synctest.Wait()
		}
		put()
		put()
		require.Contains(t, log.String(), "no such file or directory")
		require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")))
		require.NoError(t, os.Mkdir(dir, 0o755))
		put()
		require.FileExists(t, w.path)
		require.NoError(t, os.RemoveAll(dir))
		put()
		require.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")))
	})
}

func TestTheDirectoryIsTheServicesElseTheSystemsElseTheUsers(t *testing.T) {
	base := t.TempDir()
	service := filepath.Join(base, dirName)
	require.NoError(t, os.Mkdir(service, 0o700))
	t.Setenv("RUNTIME_DIRECTORY", "/run/telegraf:"+service)
	dir, err := MakeDir()
	require.NoError(t, err)
	require.Equal(t, service, dir)
	info, err := os.Stat(service)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm(), "systemd makes it as closed as that of the sockets")

	t.Setenv("RUNTIME_DIRECTORY", "/run/telegraf:/run/rdma_events")
	_, err = MakeDir()
	require.ErrorIs(t, err, errNotRuntime)
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	_, err = makeWritableDir(open)
	require.ErrorContains(t, err, "others may write to it (mode 0777)")
	_, err = makeWritableDir("/proc/" + dirName)
	require.ErrorContains(t, err, "make /proc/"+dirName+" for the status: ")

	user := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", user)
	writeStatus(t, service, newStatus("mlx5_0"))
	require.NoError(t, os.Rename(service, filepath.Join(user, dirName)))
	found, err := Read("")
	require.NoError(t, err)
	require.NotEmpty(t, found.Devices)
}
