package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/schema"
)

// reported is a run of `rdma-events report`.
type reported struct {
	stdout, stderr string
	code           int
	path           string            // of the archive
	names          []string          // of its files, in their order
	files          map[string]string // their contents
}

// runReport runs it with -out in a directory of its own, and reads the archive if there is one.
func runReport(t *testing.T, args ...string) *reported {
	t.Helper()
	r := &reported{path: filepath.Join(t.TempDir(), "out.tar.gz"), files: map[string]string{}}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), append([]string{"report", "-out", r.path}, args...)...)
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	r.stdout, r.stderr, r.code = stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	r.open(t)
	return r
}

// open reads the archive.
func (r *reported) open(t *testing.T) {
	t.Helper()
	f, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		dir, name, _ := strings.Cut(h.Name, "/")
		require.Regexp(t, `^report-.+-\d{8}T\d{6}Z$`, dir)
		require.Equal(t, int64(0o600), h.Mode)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		r.names, r.files[name] = append(r.names, name), string(text)
	}
}

// section returns the lines of a section of the manifest.
func (r *reported) section(title string) []string {
	_, rest, _ := strings.Cut(r.files["MANIFEST.txt"], "\n"+title+"\n")
	text, _, _ := strings.Cut(rest, "\n\n")
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// deviceFacts is what the tests read of devices/NAME.json.
type deviceFacts struct {
	Device string
	Parts  struct {
		Attributes *struct {
			Driver string
			Ports  int
		}
	}
	Ports []struct {
		Port  int
		Parts struct {
			Attributes *struct {
				State  string
				NetDev string
			}
			GIDs       []struct{ GID, Type string }
			NetDev     *struct{ Name string }
			HWCounters map[string]uint64 `json:"hw_counters"`
			Link       *struct{}
		}
	}
	Calls []struct{ Part, Error string }
}

func (r *reported) device(t *testing.T, name string) (d deviceFacts) {
	t.Helper()
	text := r.files["devices/"+name+".json"]
	schema.Require(t, "report_device", text)
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d
}

func TestAReportHoldsTheTimelineTheDevicesAndTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "rdma_events")
	plugin := startRecording(t, dir, everySecond)
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return err == nil && countRecords(readRecords(t, dir), isDrop) >= 2
	}, time.Minute, 200*time.Millisecond)
	plugin.stop(t)
	conf := writeFile(t, "rdma_events.conf", "# hunter2 is our password\n"+simConfig(writeScenario(t, "")), 0o644)

	r := runReport(t, "-config", conf, "-directory", dir)
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, []string{
		"MANIFEST.txt", "timeline.txt", "timeline.jsonl", "doctor.txt", "devices/sim0.json", "host.json", "config.toml",
	}, withoutOthers(r.names))
	require.Contains(t, r.stderr, r.path+" is written\n")
	require.NotContains(t, r.stderr, "W!")

	events, code := runCommand(t, "events", "-directory", dir)
	require.Zero(t, code)
	require.Equal(t, events, r.files["timeline.txt"])
	require.Equal(t, events, r.stdout, "it is printed as well")
	objects, code := runCommand(t, "events", "-json", "-directory", dir)
	require.Zero(t, code)
	require.Equal(t, objects, r.files["timeline.jsonl"])

	d := r.device(t, "sim0")
	require.Equal(t, "sim", d.Parts.Attributes.Driver)
	require.Len(t, d.Ports, d.Parts.Attributes.Ports)
	require.Equal(t, "active", d.Ports[0].Parts.Attributes.State)
	require.Len(t, d.Ports[0].Parts.GIDs, 4)
	require.Equal(t, "roce_v2", d.Ports[0].Parts.GIDs[3].Type)
	require.Equal(t, d.Ports[0].Parts.Attributes.NetDev, d.Ports[0].Parts.NetDev.Name)
	require.NotEmpty(t, d.Ports[0].Parts.HWCounters)
	require.NotNil(t, d.Ports[0].Parts.Link)

	schema.Require(t, "report_host", r.files["host.json"])
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	require.NoError(t, err)
	require.Contains(t, r.files["host.json"], strconv.Quote(strings.TrimSpace(string(release))))
	require.Contains(t, r.files["host.json"], "/libibverbs.so.")
	require.Contains(t, r.files["doctor.txt"], "simulates devices, and watches no device of this host")
	require.Contains(t, r.files["config.toml"], `backend = "sim"`)
	require.NotContains(t, r.files["config.toml"], "hunter2")

	require.Equal(t, []string{"none"}, r.section("Missing, or missing in part"))
	require.Equal(t, []string{
		"resources.json the kernel has no resources of simulated devices",
		"kernel.log the devices are simulated: the kernel has no lines about them",
	}, r.section("Left out"))
	require.Equal(t, []string{"none"}, r.section("Removed values"))
	require.Regexp(t, `(?m)^  arguments +-out \S+ -config \S+ -directory \S+$`, r.files["MANIFEST.txt"])
	for _, name := range r.names {
		require.Regexp(t, `(?m)^  `+regexp.QuoteMeta(name)+` `, r.files["MANIFEST.txt"])
	}

	one := runReport(t, "-config", conf, "-directory", dir, "-device", "sim9", "-since", "1ns")
	require.Equal(t, 1, one.code)
	require.Equal(t, []string{"MANIFEST.txt", "timeline.txt", "timeline.jsonl", "doctor.txt", "host.json", "config.toml"}, one.names)
	require.Empty(t, one.stdout, "nothing was recorded since")
	require.Contains(t, one.stderr, "W! devices/sim9.json: this host has no RDMA device of that name now\n")
}

// withoutOthers leaves out all snapshots but that of sim0.
func withoutOthers(names []string) (left []string) {
	for _, name := range names {
		if !strings.HasPrefix(name, "devices/") || name == "devices/sim0.json" {
			left = append(left, name)
		}
	}
	return left
}

func TestADeviceThatDoesNotAnswerLosesNothingElseOfAReport(t *testing.T) {
	t.Parallel()
	hangs := simConfig(writeScenario(t, "[[fault]]\nat = \"0s\"\nkind = \"hang_query\"\ndevice = \"sim0\"\nfor = \"1h\"\n"))
	conf := writeFile(t, "rdma_events.conf", strings.Replace(hangs, "scenario =", "profile = \"fleet4\"\n  scenario =", 1), 0o644)
	r := runReport(t, "-config", conf, "-directory", "/nonexistent/records")
	require.Equal(t, 1, r.code)
	require.Equal(t, []string{
		"MANIFEST.txt", "doctor.txt", "devices/sim0.json", "devices/sim1.json", "devices/sim2.json", "devices/sim3.json",
		"host.json", "config.toml",
	}, r.names)
	require.Contains(t, r.stderr, "W! timeline.txt: read records: open /nonexistent/records: no such file or directory; nothing was recorded there")
	const late = "attributes of port 1: the device has not answered within 3s"
	require.Contains(t, r.stderr, "W! devices/sim0.json: "+late+"\n")
	require.Contains(t, r.section("Missing, or missing in part"), "devices/sim0.json "+late)
	require.Regexp(t, r.path+` is written; the lines above name the missing parts\n$`, r.stderr)

	d := r.device(t, "sim0")
	require.NotNil(t, d.Parts.Attributes, "what came before is there")
	require.Len(t, d.Ports[0].Parts.GIDs, 4)
	require.Nil(t, d.Ports[0].Parts.Attributes)
	require.NotNil(t, r.device(t, "sim1").Ports[0].Parts.Attributes)
}

// hangingWorker returns a program that is the worker except for snapshots, which it begins and
// then hangs. Its process number is in the file.
func hangingWorker(t *testing.T) (program, pid string) {
	t.Helper()
	pid = filepath.Join(t.TempDir(), "pid")
	return writeFile(t, "worker", `#!/bin/sh
[ "$1" = -evidence ] || exec `+rig.Program(t, "RDMA_EVENTS_WORKER", "rdma-events-worker")+` "$@"
echo '{"part":"attributes","begun":true}'
echo $$ > `+pid+`.new && mv `+pid+`.new `+pid+`
exec sleep 1000
`, 0o755), pid
}

func requireGone(t *testing.T, pidFile string) {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestAWorkerThatHangsIsKilledAndTheReportSaysWhere(t *testing.T) {
	t.Parallel()
	program, pid := hangingWorker(t)
	conf := writeFile(t, "rdma_events.conf", "[[inputs.rdma_events]]\n  backend = \"sim\"\n  devices = [\"sim0\"]\n  worker_path = \""+program+"\"\n", 0o644)
	r := runReport(t, "-config", conf, "-device", "sim0")
	require.Equal(t, 1, r.code)
	require.Equal(t, []deviceCall{{"attributes", "not answered when the process ended"}}, callsOf(r.device(t, "sim0")))
	require.Contains(t, r.stderr, "W! devices/sim0.json: run "+program+" -evidence: no answer within 10s\n")
	require.Contains(t, r.names, "host.json")
	requireGone(t, pid)
}

type deviceCall struct{ part, err string }

func callsOf(d deviceFacts) (all []deviceCall) {
	for _, c := range d.Calls {
		all = append(all, deviceCall{c.Part, c.Error})
	}
	return all
}

func TestAnInterruptedReportLeavesNothing(t *testing.T) {
	t.Parallel()
	program, pid := hangingWorker(t)
	conf := writeFile(t, "rdma_events.conf", "[[inputs.rdma_events]]\n  backend = \"sim\"\n  devices = [\"sim0\"]\n  worker_path = \""+program+"\"\n", 0o644)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "report", "-config", conf, "-out", filepath.Join(dir, "out.tar.gz"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(pid)
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "E! interrupted: no archive is written\n")
	requireEmpty(t, dir)
	requireGone(t, pid)
}

// As in the epilog of a job: a device hangs, and the directory has reports of other jobs.
func TestAReportEndsInTimeWithWhatItHas(t *testing.T) {
	t.Parallel()
	records := filepath.Join(shortDir(t), "rdma_events")
	plugin := startRecording(t, records, everySecond)
	require.Eventually(t, func() bool {
		_, err := os.Stat(records)
		return err == nil && countRecords(readRecords(t, records), isDrop) >= 1
	}, time.Minute, 200*time.Millisecond)
	plugin.stop(t)
	program, pid := hangingWorker(t)
	conf := writeFile(t, "rdma_events.conf", "[[inputs.rdma_events]]\n  backend = \"sim\"\n  devices = [\"sim0\"]\n  worker_path = \""+program+"\"\n", 0o644)
	dir := t.TempDir()
	began := time.Now()
	for range 2 {
		r := runReport(t, "-config", conf, "-directory", records, "-timeout", "3s", "-out", dir)
		require.Equal(t, 1, r.code, r.stderr)
		require.Contains(t, r.stderr, "W! devices/sim0.json: ")
		require.Contains(t, r.stdout, "port_err")
	}
	require.Less(t, time.Since(began), 60*time.Second, "ten times of the bound")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "neither replaced the other, and nothing else is left")
	r := &reported{path: filepath.Join(dir, entries[0].Name()), files: map[string]string{}}
	r.open(t)
	require.Contains(t, r.names, "timeline.txt")
	require.NotContains(t, r.names, "doctor.txt")
	require.Contains(t, r.section("Left out"), "doctor.txt it tries the devices, which takes longer than -timeout: rdma-events doctor")
	requireGone(t, pid)
}

// An unknown key is a configuration that the plugin refuses, with a line that quotes its value.
func TestNoSecretOfAConfigurationIsInAReport(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a key that is no option": "[[inputs.rdma_events]]\n  backend = \"sim\"\n  token = \"hunter2\"\n  [inputs.rdma_events.sim]\n    seed = 1\n",
		"no TOML":                 "[[inputs.rdma_events]]\n  backend = \"sim\"\n  token = hunter2\n",
		"a file of Telegraf's":    "[[outputs.influxdb]]\n  password = \"hunter2\"\n[[inputs.rdma_events]]\n  backend = \"sim\"\n",
		"a URL":                   "[[inputs.rdma_events]]\n  backend = \"sim\"\n  [inputs.rdma_events.sim]\n    scenario = \"http://user:hunter2@host/x\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf := writeFile(t, "rdma_events.conf", text, 0o600)
			r := runReport(t, "-config", conf)
			require.Equal(t, 1, r.code, r.stderr)
			for file, content := range r.files {
				require.NotContains(t, content, "hunter2", file)
			}
			require.Contains(t, r.names, "doctor.txt")
			require.NotContains(t, r.files["doctor.txt"], conf)
			if name == "no TOML" {
				require.Contains(t, r.section("Missing, or missing in part"),
					"config.toml "+conf+": it is no TOML: line 3, before variables of the environment are put in")
				return
			}
			require.Contains(t, r.files["config.toml"], `backend = "sim"`)
			if name != "a file of Telegraf's" {
				require.NotEqual(t, []string{"none"}, r.section("Removed values"))
			}
		})
	}
}

func TestAReportThatCannotBeWrittenIsOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-out", filepath.Join(dir, "none/out.tar.gz")}, 2, "E! write " + path.Join(dir, "none/out.tar.gz") + ": "},
		{[]string{"-config", "/nonexistent/f"}, 2, "E! read configuration: open /nonexistent/f: no such file or directory\n"},
		{[]string{"-since", "-1h"}, 64, "-since -1h0m0s is in the future"},
		{[]string{"mlx5_0"}, 64, "name a device with -device"},
		{[]string{"part", "x"}, 64, "it is not to be started by hand"},
	} {
		cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), append([]string{"report"}, tt.args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.Error(t, err, tt.args)
		require.Equal(t, tt.code, cmd.ProcessState.ExitCode(), tt.args)
		require.Contains(t, string(out), tt.want)
		require.Equal(t, 1, strings.Count(string(out), "\n"), "%v: %s", tt.args, out)
		requireEmpty(t, dir)
	}
}

func TestAReportWithoutAReaderIsWrittenAllTheSame(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "rdma_events")
	plugin := startRecording(t, dir, "")
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "0000000001.seg"))
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	plugin.stop(t)
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, "")), 0o644)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "report", "-config", conf, "-directory", dir)
	cmd.Dir = out // the archive is here, under its own name
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = write, &stderr
	require.NoError(t, cmd.Run(), stderr.String())
	require.NoError(t, write.Close())
	left, err := filepath.Glob(filepath.Join(out, "*"))
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Regexp(t, `/report-.+-\d{8}T\d{6}Z\.tar\.gz$`, left[0])
	require.Contains(t, stderr.String(), filepath.Base(left[0])+" is written\n")
}
