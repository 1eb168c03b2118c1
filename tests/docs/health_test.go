package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// node is a node of a cluster on which a program of docs/how-to/slurm.md runs. It stands in for what the program asks: rdma-events, /proc/uptime and
// the resource manager. A reboot empties its /run.
type node struct {
	dir string
}

// newNode returns a node with a file of docs/how-to/slurm.md, in which the paths of the node are replaced.
func newNode(t *testing.T, path, name string) *node {
	t.Helper()
	n := &node{t.TempDir()}
	text := slurmFile(t, path)
	for _, path := range []string{"/proc/uptime", "/run/"} {
		if path == "/proc/uptime" || strings.Contains(text, path) {
			require.Contains(t, text, path)
			text = strings.ReplaceAll(text, path, n.dir+path)
		}
	}
	require.NoError(t, os.MkdirAll(n.dir+"/proc", 0o755))
	n.boot(t)
	n.write(t, name, text)
	return n
}

func (n *node) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o755))
}

// boot empties /run.
func (n *node) boot(t *testing.T) {
	t.Helper()
	require.NoError(t, os.RemoveAll(n.dir+"/run"))
	require.NoError(t, os.Mkdir(n.dir+"/run", 0o755))
}

// health has `rdma-events health` print a line and end with a status, some seconds after boot.
func (n *node) health(t *testing.T, uptime, status int, line string) {
	t.Helper()
	n.write(t, "proc/uptime", fmt.Sprintf("%d.99 1234.56\n", uptime))
	n.write(t, "line", line+"\n")
	n.write(t, "rdma-events", fmt.Sprintf("#!/bin/sh\n[ \"$*\" = health ] || exit 99\ncat %s/line\nexit %d\n", n.dir, status))
}

// run runs a program, and returns what it printed.
func (n *node) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = []string{"PATH=" + n.dir + ":/usr/bin:/bin", "SLURMD_NODENAME=n042"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// asked returns the commands that the stand-in for scontrol was given, and forgets them.
func (n *node) asked(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(n.dir + "/asked")
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	require.NoError(t, os.RemoveAll(n.dir+"/asked"))
	return string(text)
}

// scontrol has a stand-in for scontrol show a node as `scontrol -o show node` does, in node_info.c of Slurm.
func (n *node) scontrol(t *testing.T, state, reason string) {
	t.Helper()
	if reason != "" {
		reason = " Reason=" + reason + " [root@2026-11-26T12:00:00]"
	}
	n.write(t, "node", "NodeName=n042 Arch=x86_64 State="+state+" ThreadsPerCore=1 Partitions=NODRAIN "+reason+"\n")
	n.write(t, "scontrol", fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%[1]s/asked\n[ \"$1\" != -o ] || cat %[1]s/node\n", n.dir))
}

const (
	portDown = "mlx5_1:1 port-down since 14:02"
	tooEarly = "cannot tell yet; mlx5_1:1: not active, expected_up"
	shows    = "-o show node n042\n"
)

func TestSlurmsHealthProgramDrainsForCriticalProblemsAndWaitsAfterBoot(t *testing.T) {
	const (
		drain = shows + "update NodeName=n042 State=DRAIN Reason=rdma: " + portDown + "\n"
		wait  = shows + "update NodeName=n042 State=DRAIN Reason=rdma-wait: " + tooEarly + "\n"
		ready = shows + "update NodeName=n042 State=UNDRAIN\n"
		ours  = "rdma-wait: " + tooEarly
		idle  = "IDLE"
		drnd  = "IDLE+DRAIN"
		soon  = 299
		late  = 300
	)
	for name, row := range map[string]struct {
		status, uptime int
		state, reason  string
		want           string
	}{
		"no problem":                               {0, late, idle, "", shows},
		"a warning":                                {1, late, idle, "", shows},
		"a critical problem":                       {2, late, idle, "", drain},
		"a critical problem after boot":            {2, soon, idle, "", drain},
		"a node in use":                            {2, late, "MIXED", "", drain},
		"a drained node":                           {2, late, drnd, "bad DIMM", shows},
		"a draining node":                          {2, late, "ALLOCATED+DRAIN", "bad DIMM", shows},
		"a node that is down":                      {2, late, "DOWN", "Not responding", shows},
		"a maintenance":                            {2, late, "IDLE+MAINTENANCE", "", shows},
		"a drain of before":                        {2, late, drnd, "rdma: " + portDown, shows},
		"a reboot to come, with a problem":         {2, late, "MIXED+REBOOT_REQUESTED", "", drain},
		"a waiting node, with a problem":           {2, late, drnd, ours, drain},
		"too early":                                {70, soon, idle, "", wait},
		"too early, with jobs":                     {70, soon, "MIXED", "", wait},
		"too early, waiting":                       {70, soon, drnd, ours, shows},
		"too early, drained":                       {70, soon, drnd, "bad DIMM", shows},
		"too early, down":                          {70, soon, "DOWN", "Node unexpectedly rebooted", shows},
		"too early, a maintenance":                 {70, soon, "IDLE+MAINTENANCE", "", shows},
		"too early, a reboot to come":              {70, soon, "IDLE+REBOOT_REQUESTED", "", shows},
		"no running plugin":                        {70, late, idle, "", ""},
		"no running plugin, waiting":               {70, late, drnd, ours, ""},
		"ready":                                    {0, soon, drnd, ours, ready},
		"ready, with a warning":                    {1, soon, drnd, ours, ready},
		"ready late":                               {0, 9000, drnd, ours, ready},
		"ready, with jobs":                         {0, late, "MIXED+DRAIN", ours, ready},
		"well, drained":                            {0, late, drnd, "bad DIMM", shows},
		"well, drained for a reason that has ours": {0, late, drnd, "see Reason=rdma-wait: x", shows},
		"well, drained for a problem":              {0, late, drnd, "rdma: " + portDown, shows},
		"well, drained without a reason":           {0, late, drnd, "", shows},
		"ready, and down":                          {0, late, "DOWN+DRAIN", ours, shows},
		"ready, and a maintenance":                 {0, late, "IDLE+DRAIN+MAINTENANCE", ours, shows},
		"ready, and a reboot to come":              {0, late, "IDLE+DRAIN+REBOOT_REQUESTED", ours, shows},
		"wrong use":                                {64, soon, idle, "", ""},
		"no rdma-events":                           {127, soon, idle, "", ""},
		"a program that died":                      {137, soon, idle, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "/usr/local/sbin/rdma-health", "rdma-health")
			line := portDown
			if row.status == 70 {
				line = tooEarly
			}
			n.health(t, row.uptime, row.status, line)
			n.scontrol(t, row.state, row.reason)
			n.run(t, n.dir+"/rdma-health")
			require.Equal(t, row.want, n.asked(t))
		})
	}
}

func TestSlurmsHealthProgramAsksOnceABootWhileNodeIsWell(t *testing.T) {
	n := newNode(t, "/usr/local/sbin/rdma-health", "rdma-health")
	round := func(uptime, status int, state, reason string) string {
		n.health(t, uptime, status, tooEarly)
		n.scontrol(t, state, reason)
		n.run(t, n.dir+"/rdma-health")
		return n.asked(t)
	}
	const ours = "rdma-wait: " + tooEarly
	require.Equal(t, shows, round(100, 0, "IDLE", ""))
	require.Empty(t, round(160, 0, "IDLE", ""))
	require.Empty(t, round(220, 1, "IDLE", ""))
	require.Contains(t, round(280, 70, "IDLE", ""), "State=DRAIN Reason=rdma-wait: ")
	require.Contains(t, round(340, 0, "IDLE+DRAIN", ours), "State=UNDRAIN")
	require.Empty(t, round(400, 0, "IDLE", ""))
	require.Contains(t, round(460, 2, "IDLE", ""), "State=DRAIN Reason=rdma: ")

	n.boot(t) // while it waited
	require.Contains(t, round(30, 0, "IDLE+DRAIN", ours), "State=UNDRAIN")
	n.boot(t)
	n.write(t, "scontrol", "#!/bin/sh\nexit 1\n") // slurmctld does not answer
	n.health(t, 30, 0, tooEarly)
	n.run(t, n.dir+"/rdma-health")
	require.Contains(t, round(90, 0, "IDLE+DRAIN", ours), "State=UNDRAIN")
}

// nhc has what a check of NHC 1.4.3 uses. As in NHC, die evaluates its text within single quotes, and a node is marked online only after all
// checks.
const nhc = `die() { shift; eval offline n042 "'$*'"; exit 1; }
log() { echo "$@"; }
dbg() { :; }
. "$1"
(check_rdma) && online n042
exit 0
`

// runNHC runs the check, by NHC's own program if RDMA_EVENTS_NHC has its directory, and returns as what it marked the node.
func (n *node) runNHC(t *testing.T) string {
	t.Helper()
	for _, mark := range []string{"online", "offline"} {
		n.write(t, mark, fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>%s/asked\n", mark, n.dir))
	}
	if dir := os.Getenv("RDMA_EVENTS_NHC"); dir != "" {
		n.write(t, "nhc.conf", "* || check_rdma\n")
		common, err := os.ReadFile(dir + "/scripts/common.nhc")
		require.NoError(t, err)
		n.write(t, "common.nhc", string(common))
		n.run(t, "sh", "-c", `"$@" || true`, "sh", dir+"/nhc", "-c", n.dir+"/nhc.conf", "-l", n.dir+"/log", "NHC_RM=slurm", "HOSTNAME=n042",
			"PATH="+n.dir+":/usr/bin:/bin", "INCDIR="+n.dir, "OFFLINE_NODE="+n.dir+"/offline", "ONLINE_NODE="+n.dir+"/online")
	} else {
		n.run(t, "bash", "-c", nhc, "bash", n.dir+"/rdma.nhc")
	}
	return n.asked(t)
}

func TestNHCFailsForCriticalProblemsAndWaitsAfterBoot(t *testing.T) {
	const (
		well    = "online n042\n"
		problem = "offline n042 check_rdma: " + portDown + "\n"
		waits   = "offline n042 check_rdma: not ready: " + tooEarly + "\n"
	)
	type round struct {
		uptime, status int
		line, want     string
	}
	for name, rounds := range map[string][]round{
		"well, a warning, well":    {{30, 0, "", well}, {90, 1, "mlx5_1:1 port-flapping", well}, {150, 0, "", well}},
		"a problem, until it ends": {{9000, 2, portDown, problem}, {9060, 2, portDown, problem}, {9120, 0, "", well}},
		"a problem, and Telegraf is stopped": {
			{9000, 2, portDown, problem}, {9060, 70, "cannot tell", problem}, {9120, 137, "", problem}, {9180, 0, "", well}, {9240, 70, "cannot tell", well},
		},
		"ready within five minutes":   {{30, 70, tooEarly, waits}, {90, 70, tooEarly, waits}, {150, 0, "", well}},
		"ready late":                  {{299, 70, tooEarly, waits}, {9000, 70, tooEarly, waits}, {9060, 1, "", well}},
		"a problem after the wait":    {{30, 70, tooEarly, waits}, {90, 2, portDown, problem}, {150, 0, "", well}},
		"Telegraf is stopped":         {{30, 0, "", well}, {300, 70, "cannot tell", well}},
		"Telegraf is stopped at once": {{30, 0, "", well}, {299, 70, tooEarly, waits}},
		"wrong use":                   {{30, 64, "", well}},
		"an application's name that would be a command": {
			{9000, 2, "mlx5_0 app-errors x'; online n042; '", "offline n042 check_rdma: mlx5_0 app-errors x; online n042; \n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "/etc/nhc/scripts/rdma.nhc", "rdma.nhc")
			for _, r := range rounds {
				n.health(t, r.uptime, r.status, r.line)
				require.Equal(t, r.want, strings.ReplaceAll(n.runNHC(t), ":  ", ": "), r)
			}
		})
	}
	n := newNode(t, "/etc/nhc/scripts/rdma.nhc", "rdma.nhc")
	n.health(t, 30, 0, "")
	require.NoError(t, os.Remove(n.dir+"/rdma-events"))
	require.Equal(t, well, n.runNHC(t), "no plugin is installed")
}

// unitValues returns the values of a key in the unit rdma-ready.service of docs/how-to/slurm.md.
func unitValues(t *testing.T, key string) []string {
	t.Helper()
	var values []string
	for line := range strings.Lines(slurmFile(t, "/etc/systemd/system/rdma-ready.service")) {
		if value, found := strings.CutPrefix(line, key+"="); found {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

func TestUnitWaitsAtMostFiveMinutesAfterBoot(t *testing.T) {
	command, found := strings.CutPrefix(strings.Join(unitValues(t, "ExecStart"), "\n"), "/bin/sh -c '")
	require.True(t, found)
	command = strings.NewReplacer("$$", "$", "%%", "%").Replace(strings.TrimSuffix(command, "'")) // as systemd.service(5) reads them
	require.Equal(t, []string{"5min"}, unitValues(t, "TimeoutStartSec"))
	require.Equal(t, []string{"oneshot"}, unitValues(t, "Type"))
	require.Empty(t, unitValues(t, "RequiredBy"))
	for name, row := range map[string]struct{ uptime, status, naps int }{
		"well":                  {20, 0, 0},
		"a warning":             {20, 1, 0},
		"a critical problem":    {20, 2, 0},
		"no program":            {20, 127, 0},
		"it did not answer":     {20, 124, 0},
		"cannot tell":           {20, 70, 56},
		"cannot tell, nearly":   {297, 70, 1},
		"cannot tell, too late": {300, 70, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{t.TempDir()}
			require.NoError(t, os.Mkdir(n.dir+"/proc", 0o755))
			n.health(t, row.uptime, row.status, tooEarly)
			// The time passes at once.
			n.write(t, "sleep", fmt.Sprintf("#!/bin/sh\necho \"$1\" >>%[1]s/asked\nread -r up rest <%[1]s/proc/uptime\n"+
				"echo $((${up%%.*} + $1)).99 >%[1]s/proc/uptime\n", n.dir))
			n.run(t, "sh", "-c", strings.ReplaceAll(command, "/proc/uptime", n.dir+"/proc/uptime"))
			require.Equal(t, strings.Repeat("5\n", row.naps), n.asked(t))
		})
	}
}

func TestUnitEndsTheWaitOnceHealthCanTell(t *testing.T) {
	n := &node{t.TempDir()}
	require.NoError(t, os.Mkdir(n.dir+"/proc", 0o755))
	n.health(t, 20, 70, tooEarly)
	n.write(t, "sleep", fmt.Sprintf("#!/bin/sh\necho \"$1\" >>%[1]s/asked\nprintf '#!/bin/sh\\nexit 2\\n' >%[1]s/rdma-events\n", n.dir))
	command := strings.Join(unitValues(t, "ExecStart"), "\n")
	command = strings.NewReplacer("$$", "$", "%%", "%", "/proc/uptime", n.dir+"/proc/uptime").Replace(command)
	n.run(t, "sh", "-c", command)
	require.Equal(t, "5\n", n.asked(t))
}

func TestUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"rdma-ready.service": slurmFile(t, "/etc/systemd/system/rdma-ready.service"),
		"telegraf.service":   "[Service]\nExecStart=/bin/true\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	path := filepath.Join(dir, "rdma-ready.service")
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out))
}
