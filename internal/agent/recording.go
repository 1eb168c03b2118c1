package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/record/recorder"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/telemetry/measure"
)

// recordKeeper writes events and changes to the recorder's directory. The zero value writes nothing.
type recordKeeper struct {
	recording *timeline.Recording
	running   goroutine
	disabled  bool // no directory is configured
}

// start starts the recorder. If there is no directory, or the directory cannot be used, the plugin runs without
// records.
func (k *recordKeeper) start(c *RecorderConfig, version string, now func() time.Time, log *slog.Logger) {
	dir := c.Directory
	if dir == "" {
		dir = stateDirectory(os.Getenv("STATE_DIRECTORY"))
	}
	if k.disabled = dir == ""; k.disabled {
		return
	}
	plugin := describePlugin(version)
	boot, err := clock.BootID()
	var rec *recorder.Recorder
	if err == nil {
		rec, err = recorder.Open(recorder.Config{
			Directory: dir, SizeMiB: c.SizeMiB, Yielding: timeline.YieldingKinds(),
			BootID: boot, Host: plugin.Host, Clock: clock.WallAndBoot, Log: log,
			AliveEvery: aliveInterval,
		})
	}
	if err != nil {
		log.Warn("recorder: start failed, nothing is recorded", "error", err)
		return
	}
	k.recording = timeline.NewRecording(rec, now)
	k.running = startGoroutine(func(ctx context.Context) {
		if err := k.recording.Run(ctx); err != nil {
			log.Warn(err.Error())
		}
	})
	k.recording.Add(timeline.Record{Time: now(), Kind: timeline.KindPlugin, Plugin: plugin})
}

// logIfDisabled logs that nothing is recorded because no directory is configured.
func (k *recordKeeper) logIfDisabled(log *slog.Logger) {
	if k.disabled {
		log.Info("nothing is recorded: recorder.directory is not set, and the unit has no StateDirectory=" + stateDirName)
	}
}

// recordPoint records a point. It does not change or keep the point.
func (k *recordKeeper) recordPoint(p measure.Point) {
	if k.recording != nil {
		k.recording.Emit(p)
	}
}

// recordingLogger returns a logger that passes all lines to next and also records warnings and errors.
func (k *recordKeeper) recordingLogger(next *slog.Logger) *slog.Logger {
	if k.recording == nil {
		return next
	}
	return slog.New(slog.NewMultiHandler(next.Handler(), timeline.NewLog(slog.LevelWarn, k.recording.Add).Handler()))
}

// recordInterval records the points of an interval, and adds the recorder's counts to the agent's own point.
func (k *recordKeeper) recordInterval(i *measure.Interval) {
	if k.recording == nil {
		return
	}
	k.recording.RecordInterval(i.Points)
	c := k.recording.Counts()
	i.Own.Recorder = &measure.Recorder{Recorded: c.Recorded, Errors: c.Errors, Lost: c.Lost}
}

// cancel tells the recorder to write the remaining records and stop. It does not wait.
func (k *recordKeeper) cancel() {
	if k.recording != nil {
		k.running.cancel()
	}
}

// stop stops the recorder, and waits until all records are written or ctx is done.
func (k *recordKeeper) stop(ctx context.Context) {
	if k.recording != nil {
		k.running.stop(ctx)
	}
}

// aliveInterval is the time without any record after which the plugin records that it is running. This distinguishes a
// quiet host from a host whose records end early. Such a record takes about 200 bytes.
const aliveInterval = 10 * time.Minute

// stateDirName is the name of the directory that the package's unit file asks systemd for.
const stateDirName = "rdma_events"

// stateDirectory returns this plugin's directory in a list of the directories that systemd made for the service
// ($STATE_DIRECTORY; see StateDirectory in systemd.exec(5)). It returns "" if the list does not contain it.
func stateDirectory(list string) string {
	for dir := range strings.SplitSeq(list, ":") {
		if filepath.Base(dir) == stateDirName {
			return dir
		}
	}
	return ""
}

// describePlugin returns the record about this plugin: its version, host and kernel.
func describePlugin(version string) *timeline.Plugin {
	p := &timeline.Plugin{Version: version, Host: "unknown", Kernel: "unknown"}
	if host, err := hostName(); err == nil {
		p.Host = host
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		p.Kernel = fmt.Sprintf("%s %s", unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:]))
	}
	return p
}
