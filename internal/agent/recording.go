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

// recordKeeper keeps what happens in a recorder's directory. The zero value keeps nothing.
type recordKeeper struct {
	recording *timeline.Recording
	running   running
	off       bool // there is no directory
}

// start begins to record. Without a directory, or if it cannot be used, all else goes on
// without.
func (k *recordKeeper) start(c *RecorderConfig, version string, now func() time.Time, log *slog.Logger) {
	dir := c.Directory
	if dir == "" {
		dir = stateDirectory(os.Getenv("STATE_DIRECTORY"))
	}
	if k.off = dir == ""; k.off {
		return
	}
	plugin := thisPlugin(version)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id") // random(4)
	var rec *recorder.Recorder
	if err == nil {
		rec, err = recorder.Open(recorder.Config{
			Directory: dir, SizeMiB: c.SizeMiB, Yielding: timeline.YieldingKinds(),
			BootID: strings.TrimSpace(string(boot)), Host: plugin.Host, Clock: clock.WallAndBoot, Log: log,
			AliveEvery: aliveEvery,
		})
	}
	if err != nil {
		log.Warn(err.Error() + "; nothing is recorded, and all else goes on")
		return
	}
	k.recording = timeline.NewRecording(rec, now)
	k.running = run(func(ctx context.Context) {
		if err := k.recording.Run(ctx); err != nil {
			log.Warn(err.Error())
		}
	})
	k.recording.Add(timeline.Record{Time: now(), Kind: timeline.KindPlugin, Plugin: plugin})
}

// announce says that nothing is recorded, if the configuration asks for nothing else.
func (k *recordKeeper) announce(log *slog.Logger) {
	if k.off {
		log.Info("nothing is recorded: recorder.directory is not set, and the unit has no StateDirectory=" + stateName)
	}
}

// record records a point, which it only reads.
func (k *recordKeeper) record(p measure.Point) {
	if k.recording != nil {
		k.recording.Emit(p)
	}
}

// log records the warnings of a logger, and passes all lines on.
func (k *recordKeeper) log(next *slog.Logger) *slog.Logger {
	if k.recording == nil {
		return next
	}
	return slog.New(slog.NewMultiHandler(next.Handler(), timeline.NewLog(slog.LevelWarn, k.recording.Add).Handler()))
}

// recordInterval records the points of an interval, and completes the agent's own.
func (k *recordKeeper) recordInterval(i *measure.Interval) {
	if k.recording == nil {
		return
	}
	k.recording.RecordInterval(i.Points)
	c := k.recording.Counts()
	i.Own.Recorder = &measure.Recorder{Recorded: c.Recorded, Errors: c.Errors, Lost: c.Lost}
}

// cancel ends the recording, without waiting for it.
func (k *recordKeeper) cancel() {
	if k.recording != nil {
		k.running.cancel()
	}
}

// stop waits until what was recorded is written, or ctx is done.
func (k *recordKeeper) stop(ctx context.Context) {
	if k.recording != nil {
		k.running.stop(ctx)
	}
}

// aliveEvery is how long nothing is recorded before a record says that the plugin runs: a quiet host can be told from one whose record
// ends early. Each takes some 200 bytes.
const aliveEvery = 10 * time.Minute

// stateName is the name of the directory that the package's unit file asks systemd for.
const stateName = "rdma_events"

// stateDirectory returns this plugin's directory among those that systemd made for the
// service (StateDirectory, systemd.exec(5)), "" if there is none.
func stateDirectory(list string) string {
	for dir := range strings.SplitSeq(list, ":") {
		if filepath.Base(dir) == stateName {
			return dir
		}
	}
	return ""
}

func thisPlugin(version string) *timeline.Plugin {
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
