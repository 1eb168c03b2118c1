//go:build guest

package packaged

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const (
	tracer   = "/usr/bin/rdma-events-tracer"
	config   = "/etc/telegraf/rdma_events.conf"
	perftest = "ib_write_bw"
	// soonTraced is how long the tests wait for what a tracer has seen. It takes seconds to attach in an emulated guest.
	soonTraced = time.Minute
)

// asUnit returns the prefix for a command that runs as a service of Telegraf's unit does, which leaves the bounding set as it
// is: a program whose file has capabilities gets them. setpriv itself executes a program with the capabilities that it had, so
// there is another one in between.
func asUnit() []string {
	return []string{
		"prlimit", "--memlock=8388608:8388608", "--",
		"setpriv", "--reuid=telegraf", "--regid=telegraf", "--clear-groups", "--inh-caps=-all", "--",
		"env",
	}
}

// TestTheTracersPackageServesTelegrafsUser has a kernel of Debian, whose kernel.perf_event_paranoid asks for more than the
// package gives by itself.
func TestTheTracersPackageServesTelegrafsUser(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, "d0")
	guest.LoadCore(t)
	if _, err := user.Lookup("telegraf"); err != nil {
		runCommand(t, "useradd", "--system", "telegraf")
	}
	installPackage(t, os.Getenv("RDMA_EVENTS_DEB"))
	installPackage(t, os.Getenv("RDMA_EVENTS_TRACER_DEB"))
	t.Cleanup(func() { purgePackages(t) })
	requireCapabilities(t, "cap_perfmon,cap_bpf=ep")

	said, err := runPrefixed(t, asUnit(), tracer, "-try")
	if err == nil || strings.Count(said, "\n") != 1 || !strings.Contains(said, "since kernel.perf_event_paranoid is 3, CAP_SYS_ADMIN") {
		t.Fatalf("want a refusal in one line, got %v:\n%s", err, said)
	}
	t.Log(said)
	fixParanoia(t)
	requireCapabilities(t, "cap_sys_admin,cap_perfmon,cap_bpf=ep")
	if said, err = runPrefixed(t, asUnit(), tracer, "-try"); err != nil || !strings.HasPrefix(said, "attached by kprobe in ") {
		t.Fatalf("want to attach, got %v:\n%s", err, said)
	}
	t.Log(said)

	requireOnlyPermitted(t)
	enableOptions(t, "objects", "events")
	requireTracerFound(t)
	r := rig.Start(t, rig.Config{Directory: filepath.Dir(snippet), Prefix: asUnit(), Interval: "250ms", Env: serviceDirs(t)})
	r.Await("the kernel is traced", soonTraced, func(p []rig.Point) bool { return rig.Last(p, "rdma_tracer").Int("attached") == 1 })
	awaitOpens(r, 1)

	// The server's queue pair fails, which the server does not hear, and the server is killed in the middle.
	killed := startJob(t)
	number := killed.fail(t, r, killed.server, verbs.EventQPAccessErr)
	killed.server.kill(t)
	points := r.Await("what a killed process has not read is discarded", soonTraced, func(p []rig.Point) bool {
		a := rig.Last(p, "rdma_app_async", "device", device, "app", perftest)
		return a.Int("queued") == 1 && a.Int("discarded") == 1 && a.Int("unread") == 0
	})
	if n := len(rig.Select(points, "rdma_app_hang")); n != 0 {
		t.Errorf("a killed process hangs in nothing, got %d points", n)
	}
	requireRecord(t, killed.server, verbs.EventQPAccessErr, number)
	killed.end(t)

	failed := startJob(t)
	number = failed.fail(t, r, failed.client, verbs.EventQPFatal)
	r.Await("an error that waits", soonTraced, func(p []rig.Point) bool {
		a := rig.Last(p, "rdma_app_async", "device", device, "app", perftest)
		return a.Int("queued") == 2 && a.Int("unread_errors") == 1 && a.Int("qp_fatal") == 1
	})
	requireRecord(t, failed.client, verbs.EventQPFatal, number)
	line, _ := runPrefixed(t, asTelegraf(), "rdma-events", "health") // its status is that of the worst problem
	t.Log(line)
	if !strings.Contains(line, "app-errors") {
		t.Errorf("want health to name app-errors, got %s", line)
	}
	line, _ = runPrefixed(t, asTelegraf(), "rdma-events", "status")
	t.Log(line)
	if !strings.Contains(line, perftest+" had error events") {
		t.Errorf("want the status to say that %s had error events, got %s", perftest, line)
	}
	failed.end(t)
}

// runPrefixed runs a command with a prefix in front of it and returns its output.
func runPrefixed(t *testing.T, prefix []string, line ...string) (string, error) {
	t.Helper()
	line = append(prefix, line...)
	out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput()
	return string(out), err
}

func requireCapabilities(t *testing.T, want string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "getcap", tracer).Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != tracer+" "+want {
		t.Fatalf("want the capabilities %s, got %q, %v", want, got, err)
	}
	info, err := os.Stat(tracer)
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Fatalf("want the mode 0750, got %v, %v", info, err)
	}
}

// requireOnlyPermitted gives the file the capabilities of the image, which are not effective at once: where the bounding set lacks
// one, as in a pod, the kernel executes the file all the same, and the tracer says what it lacks. It then gives it those of
// before.
func requireOnlyPermitted(t *testing.T) {
	t.Helper()
	const all = "cap_bpf,cap_perfmon,cap_sys_admin"
	list := func(line string) {
		runCommand(t, "sh", "-c", "echo "+line+" >/etc/rdma-events/tracer.caps && rdma-events-tracer-caps")
	}
	list(all + "=p")
	if said, err := runPrefixed(t, asUnit(), tracer, "-try"); err != nil || !strings.HasPrefix(said, "attached by kprobe in ") {
		t.Errorf("want to attach with capabilities that are only permitted, got %v:\n%s", err, said)
	}
	lacking := append([]string{"setpriv", "--bounding-set=-sys_admin", "--"}, asUnit()...)
	if said, err := runPrefixed(t, lacking, tracer, "-try"); err == nil || strings.Count(said, "\n") != 1 || !strings.Contains(said, "CAP_SYS_ADMIN") {
		t.Errorf("want a refusal in one line without CAP_SYS_ADMIN, got %v:\n%s", err, said)
	}
	list(all + "=ep")
	if said, err := runPrefixed(t, lacking, tracer, "-try"); err == nil || !strings.Contains(said, "Operation not permitted") {
		t.Errorf("want the kernel not to execute the file, got %v:\n%s", err, said)
	}
}

// finding is one check of `rdma-events doctor -json`.
type finding struct{ Check, Status, Text, Fix string }

// doctorFindings returns the doctor's findings by the names of the checks.
func doctorFindings(t *testing.T, prefix []string, args ...string) map[string]finding {
	t.Helper()
	line := append(append(prefix, "rdma-events", "doctor", "-json"), args...)
	out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).Output() // its status is that of the worst finding
	var report struct{ Checks []finding }
	if unread := json.Unmarshal(out, &report); unread != nil {
		t.Fatalf("%v: %v, %v", line, unread, err)
	}
	all := map[string]finding{}
	for _, f := range report.Checks {
		t.Logf("%-7s %s: %s [%s]", f.Status, f.Check, f.Text, f.Fix)
		all[f.Check] = f
	}
	return all
}

// fixParanoia has the doctor say what the tracer lacks, and runs the command that it gives.
func fixParanoia(t *testing.T) {
	t.Helper()
	found := doctorFindings(t, asUnit(), "-applications")
	if f := found["perf_paranoid"]; f.Status != "fail" || found["tracer_trial"].Status != "fail" || found["file_capabilities"].Status != "ok" {
		t.Errorf("want the doctor to miss CAP_SYS_ADMIN, got %+v", found)
	}
	runCommand(t, "sh", "-c", doctorFindings(t, nil, "-applications")["perf_paranoid"].Fix)
}

// requireTracerFound requires that the doctor finds no fault in what the tracer needs, by the plugin's configuration.
func requireTracerFound(t *testing.T) {
	t.Helper()
	found := doctorFindings(t, asUnit(), "-config", snippet)
	for _, name := range []string{
		"tracer_program", "file_capabilities", "privilege_limits", "kernel_types", "lockdown", "perf_paranoid", "unprivileged_bpf",
		"pid_namespace", "tracer_trial",
	} {
		if f := found[name]; f.Status != "ok" {
			t.Errorf("%s: want ok, got %+v", name, f)
		}
	}
}

// enableOptions sets options to true in the package's configuration, where they are commented out.
func enableOptions(t *testing.T, options ...string) {
	t.Helper()
	text, err := os.ReadFile(config)
	for _, option := range options {
		line := regexp.MustCompile(`(?m)^( *)# ` + option + ` = false$`)
		if n := len(line.FindAll(text, -1)); n != 1 {
			t.Fatalf("want one line of %s in %s, got %d (%v)", option, config, n, err)
		}
		text = line.ReplaceAll(text, []byte("${1}"+option+" = true"))
	}
	if err := os.WriteFile(config, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// serviceDirs makes the directories that systemd makes by the package's unit file, and returns the environment with them.
func serviceDirs(t *testing.T) []string {
	t.Helper()
	runCommand(t, "install", "-d", "-m", "0700", "-o", "telegraf", "/run/rdma_events", "/run/rdma_events-status", "/var/lib/rdma_events")
	return []string{"RUNTIME_DIRECTORY=/run/rdma_events:/run/rdma_events-status", "STATE_DIRECTORY=/var/lib/rdma_events"}
}

// purgePackages removes both packages, so that the next test begins without them.
func purgePackages(t *testing.T) {
	for _, name := range []string{"rdma-events-tracer", "rdma-events"} {
		if out, err := exec.Command("dpkg", "-P", name).CombinedOutput(); err != nil { // the test's context has ended
			t.Errorf("purge %s: %v: %s", name, err, out)
		}
	}
}

// job is an ib_write_bw that goes on until it is ended.
type job struct{ server, client *process }

// process is one of the two processes of a job.
type process struct {
	cmd    *exec.Cmd
	exited chan error
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill kills the process and waits for it.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-p.exited
	p.exited <- nil // for the next one
}

// startJob starts a server and a client, and returns when their queue pairs are connected.
func startJob(t *testing.T) job {
	t.Helper()
	start := func(args ...string) *process {
		cmd := exec.Command(perftest, append([]string{"-d", device, "-F", "-D", "600"}, args...)...)
		cmd.Stdout, cmd.Stderr = io.Discard, t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := &process{cmd: cmd, exited: make(chan error, 1)}
		go func() { p.exited <- cmd.Wait() }()
		t.Cleanup(func() { p.kill(t) })
		return p
	}
	j := job{server: start()}
	listens := func() bool {
		return exec.CommandContext(t.Context(), "sh", "-c", "ss -Hltn 'sport = :18515' | grep -q .").Run() == nil
	}
	guest.Eventually(t, "a server of "+perftest, soonTraced, listens)
	j.client = start("127.0.0.1")
	guest.Eventually(t, "a job whose queue pairs are connected", soonTraced, func() bool {
		return queuePair(t, j.server) > 0 && queuePair(t, j.client) > 0
	})
	return j
}

// end kills both processes.
func (j job) end(t *testing.T) {
	t.Helper()
	j.client.kill(t)
	j.server.kill(t)
}

// queuePair returns the number of a process' queue pair that is connected, 0 if it has none. The server of ib_write_bw sends
// nothing, so its queue pair stays ready to receive.
func queuePair(t *testing.T, p *process) int {
	t.Helper()
	for _, o := range guest.Resources(t, "qp", device) {
		if pid, ok := o["pid"].(float64); ok && int(pid) == p.pid() && (o["state"] == "RTR" || o["state"] == "RTS") {
			number, _ := o["lqpn"].(float64)
			return int(number)
		}
	}
	return 0
}

// fail has the kernel report an error of a process' queue pair, and requires that the metrics say whose, which and what.
func (j job) fail(t *testing.T, r *rig.Telegraf, p *process, typ verbs.EventType) (number int) {
	t.Helper()
	number = queuePair(t, p)
	guest.InjectNumber(t, device, "qp", number, int(typ), 1)
	points := r.Await("an event of "+perftest, soonTraced, func(points []rig.Point) bool {
		return len(rig.Select(points, "rdma_app_event", "app", perftest, "event", typ.String())) > 0
	})
	e := rig.Last(points, "rdma_app_event", "app", perftest, "event", typ.String())
	t.Logf("%s %v %v", e.Measurement, e.Tags, e.Fields)
	if e.Tags["device"] != device || e.Tags["object"] != "qp" || e.Int("pid") != int64(p.pid()) || e.Int("number") != int64(number) {
		t.Errorf("want queue pair %d of process %d, got %v %v", number, p.pid(), e.Tags, e.Fields)
	}
	return number
}

// requireRecord requires that the record on the host says the same.
func requireRecord(t *testing.T, p *process, typ verbs.EventType, number int) {
	t.Helper()
	want := regexp.MustCompile(fmt.Sprintf(`%s\[%d\] .*%s +qp %s`, perftest, p.pid(), typ, strconv.Itoa(number)))
	guest.Eventually(t, "a record of the event", soonTraced, func() bool {
		said, err := runPrefixed(t, asTelegraf(), "rdma-events", "events")
		return err == nil && want.MatchString(said)
	})
}
