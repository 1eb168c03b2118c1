package grafana

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"rdma_events/internal/device/memory"
	"rdma_events/internal/sys/status"
	"rdma_events/tests/history"
)

// fault is a host on which a fault happens, or almost happens, with the rules that
// fire on it. All other rules stay quiet.
type fault struct {
	name    string
	profile string // of the simulator; "" is fleet1
	runs    []run  // of the plugin, one after the other
	fires   []firing
	// expect and expectedDown are the plugin's options.
	expect, expectedDown []string
	// forgetful: the plugin has no state directory, so that no run knows of the ones before it.
	forgetful bool
	// applications has the plugin report applications.
	applications bool
	eventsAlone  bool // as in history.Host
	// fabric is what hosts report of each other. nil: nothing. The first of them has the name of the fault.
	fabric *history.Fabric
}

// run is the time from one start of the plugin on a host to its end. The times of
// the scenario count from that start.
type run struct {
	from, to time.Duration // since the start of the first run; to is end if it is 0
	timeline string
}

// firing is a span of time in which a rule fires, apart from some slack.
type firing struct {
	rule       string
	from, till time.Duration // till is end if it is 0
}

const (
	healthy = time.Hour // before anything happens
	end     = healthy + 70*time.Minute
)

// afterHealthy returns the time some minutes after the healthy hour.
func afterHealthy(minutes int) time.Duration { return healthy + time.Duration(minutes)*time.Minute }

// singleRun returns one run of the plugin, from the start of the history to its end.
func singleRun(timeline string) []run { return []run{{timeline: timeline}} }

func allFaults() []fault {
	var all []fault
	for _, some := range [][]fault{portFaults(), deviceFaults(), commandFaults(), probeFaults(), appFaults(), fabricFaults(), pluginFaults()} {
		all = append(all, some...)
	}
	return append(all, fault{name: "healthy", runs: singleRun("")})
}

func portFaults() []fault {
	return []fault{
		{
			name: "port-down", fires: []firing{{rule: "port-down", from: afterHealthy(1)}},
			runs: singleRun("[[link]]\nat = \"60m\""),
		},
		{
			name: "port-down, plugin restarted", fires: []firing{{rule: "port-down", from: afterHealthy(1)}},
			runs: []run{
				{to: afterHealthy(10), timeline: "[[link]]\nat = \"60m\""},
				{from: afterHealthy(12), timeline: "[[link]]\nat = \"0s\""},
			},
		},
		{
			// Without a state directory the memory begins at the plugin's start.
			name: "port-down, plugin restarted without its memory", forgetful: true,
			fires: []firing{{rule: "port-down", from: afterHealthy(1), till: afterHealthy(13)}},
			runs: []run{
				{to: afterHealthy(10), timeline: "[[link]]\nat = \"60m\""},
				{from: afterHealthy(12), timeline: "[[link]]\nat = \"0s\""},
			},
		},
		{
			name: "port-down, since the host was booted", fires: []firing{{rule: "port-down", from: afterHealthy(3)}},
			runs: []run{{to: afterHealthy(-2)}, {from: afterHealthy(2), timeline: "[[link]]\nat = \"0s\""}},
		},
		{
			name: "port-down, back", fires: []firing{{rule: "port-down", from: afterHealthy(1), till: afterHealthy(20)}},
			runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"20m\""),
		},
		{
			name: "port-down, but expected", expectedDown: []string{"sim0:1"},
			runs: singleRun("[[link]]\nat = \"60m\""),
		},
		{name: "port-down, but never up", runs: singleRun("[[link]]\nat = \"0s\"")},
		{
			name: "ports-down-together", profile: "fleet8", runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"20m\""),
			fires: []firing{{rule: "ports-down-together", from: afterHealthy(1), till: afterHealthy(20)}, {rule: "port-down",
				from: afterHealthy(1), till: afterHealthy(20)}},
		},
		{
			name: "ports-down-together, but only seven", profile: "fleet7", runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"20m\""),
			fires: []firing{{rule: "port-down", from: afterHealthy(1), till: afterHealthy(20)}},
		},
		{name: "ports-down-together, but never up", profile: "fleet8", runs: singleRun("[[link]]\nat = \"0s\"")},
		{
			name: "ports-down-together, but expected", profile: "fleet8", runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"20m\""),
			expectedDown: []string{"sim0:1", "sim1:1", "sim2:1", "sim3:1", "sim4:1", "sim5:1", "sim6:1", "sim7:1"},
		},
		{name: "port-down, but soon back", runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"25s\"")},
		{
			name: "flapping", fires: []firing{{rule: "port-flapping", from: afterHealthy(6), till: afterHealthy(30)}},
			runs: singleRun("[[link]]\nat = \"60m\"\nevery = \"3m\"\ntimes = 3\ndown_for = \"40ms\""),
		},
		{
			// Flaps before the restart must not hide flaps after it.
			name: "flapping, after a restart", fires: []firing{{rule: "port-flapping", from: afterHealthy(4), till: afterHealthy(32)}},
			runs: []run{
				{to: afterHealthy(1), timeline: "[[link]]\nat = \"10m\"\nevery = \"16m\"\ntimes = 4\ndown_for = \"40ms\""},
				{from: afterHealthy(2), timeline: "[[link]]\nat = \"20s\"\nevery = \"1m\"\ntimes = 3\ndown_for = \"40ms\""},
			},
		},
		{
			name: "flapping, but twice only",
			runs: singleRun("[[link]]\nat = \"60m\"\nevery = \"3m\"\ntimes = 2\ndown_for = \"40ms\""),
		},
		{
			// The reader is delayed for longer than Patience, so only link_downed counts the drop.
			name: "link-disagrees", fires: []firing{{rule: "link-disagrees", from: afterHealthy(0), till: afterHealthy(30)}},
			runs: singleRun(hangingAck("60m4s", "9s") + "[[link]]\nat = \"60m4500ms\"\ndown_for = \"40ms\""),
		},
		{
			name: "link-slow", fires: []firing{{rule: "link-slow", from: afterHealthy(5)}},
			runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"1s\"\nlanes = 1"),
		},
		{
			name: "link-slow, plugin restarted", fires: []firing{{rule: "link-slow", from: afterHealthy(5)}},
			runs: []run{
				{to: afterHealthy(20), timeline: "[[link]]\nat = \"60m\"\ndown_for = \"1s\"\nlanes = 1"},
				{from: afterHealthy(22), timeline: "[[link]]\nat = \"0s\"\ndown_for = \"1s\"\nlanes = 1"},
			},
		},
		{
			name: "link-slow, but soon well again",
			runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"1s\"\nlanes = 1\n[[link]]\nat = \"63m\"\ndown_for = \"1s\""),
		},
		{name: "link-slow, but always", runs: singleRun("[[link]]\nat = \"0s\"\ndown_for = \"1s\"\nlanes = 2")},
		{
			name: "link-slow, but then down", fires: []firing{{rule: "port-down", from: afterHealthy(3)}},
			runs: singleRun("[[link]]\nat = \"60m\"\ndown_for = \"1s\"\nlanes = 1\n[[link]]\nat = \"62m\""),
		},
		{
			name: "sm-unstable", profile: "ib8", fires: []firing{{rule: "sm-unstable", from: afterHealthy(4), till: afterHealthy(30)}},
			runs: singleRun("[[event]]\ntype = \"sm_change\"\nat = \"60m\"\nevery = \"2m\"\ntimes = 3"),
		},
		{
			name: "sm-unstable, but twice", profile: "ib8",
			runs: singleRun("[[event]]\ntype = \"sm_change\"\nat = \"60m\"\nevery = \"2m\"\ntimes = 2"),
		},
		{
			name: "sm-unstable, but for some ports", profile: "ib8",
			runs: singleRun("[[event]]\ntype = \"sm_change\"\ndevice = \"sim[0-2]\"\nat = \"60m\"\nevery = \"2m\"\ntimes = 3"),
		},
		{
			name: "gid-moved", fires: []firing{{rule: "gid-moved", from: afterHealthy(0), till: afterHealthy(30)}},
			runs: singleRun("[[gid]]\nat = \"60m\"\nindex = 3\nto = 6\naway = \"400ms\""),
		},
		{
			name: "gid-moved, but back at its index",
			runs: singleRun("[[gid]]\nat = \"60m\"\nindex = 3\naway = \"400ms\""),
		},
		{
			name: "gid-moved, but link-local",
			runs: singleRun("[[gid]]\nat = \"60m\"\nindex = 1\nto = 6\naway = \"400ms\""),
		},
		{name: "gid-moved, but gone for good", runs: singleRun("[[gid]]\nat = \"60m\"\nindex = 3")},
		{
			name: "link-disagrees, but events agree",
			runs: singleRun("[[link]]\nat = \"60m4500ms\"\ndown_for = \"40ms\""),
		},
	}
}

// hangingAck returns a fault and an event: the acknowledgement of the event hangs
// for a time.
func hangingAck(at, lasts string) string {
	return "[[fault]]\nkind = \"hang_ack\"\nat = \"" + at + "\"\nfor = \"" + lasts + "\"\n" +
		"[[event]]\ntype = \"sm_change\"\nat = \"" + at + "\"\n"
}

func deviceFaults() []fault {
	fatal := firing{rule: "device-fatal", from: afterHealthy(0), till: afterHealthy(30)}
	return []fault{
		{
			name: "device-missing", fires: []firing{{rule: "device-missing", from: afterHealthy(1)}, fatal},
			runs: singleRun("[[fault]]\nkind = \"removed\"\nat = \"60m\""),
		},
		{
			name: "device-missing, but back at once", fires: []firing{fatal},
			runs: singleRun("[[fault]]\nkind = \"removed\"\nat = \"60m\"\nfor = \"25s\""),
		},
		{
			name: "device-missing, never seen", expect: []string{"mlx5_9"},
			fires: []firing{{rule: "device-missing", from: time.Minute}},
			runs:  singleRun(""),
		},
		{
			name: "device-fatal", fires: []firing{fatal},
			runs: singleRun("[[event]]\ntype = \"device_fatal\"\nat = \"60m\""),
		},
		{
			name: "device-missing, plugin restarted", expect: []string{"sim0"}, fires: []firing{{rule: "device-missing", from: afterHealthy(1)}, fatal},
			runs: []run{
				{to: afterHealthy(40), timeline: "[[fault]]\nkind = \"removed\"\nat = \"60m\""},
				{from: afterHealthy(42), timeline: "[[fault]]\nkind = \"removed\"\nat = \"0s\""},
			},
		},
		{
			name: "device-flapping", fires: []firing{{rule: "device-flapping", from: afterHealthy(6), till: afterHealthy(30)},
				{rule: "device-fatal", from: afterHealthy(0), till: afterHealthy(36)}},
			runs: singleRun("[[fault]]\nkind = \"removed\"\nat = \"60m\"\nfor = \"10s\"\nevery = \"3m\"\ntimes = 3"),
		},
		{
			name: "device-flapping, but twice", fires: []firing{{rule: "device-fatal", from: afterHealthy(0), till: afterHealthy(33)}},
			runs: singleRun("[[fault]]\nkind = \"removed\"\nat = \"60m\"\nfor = \"10s\"\nevery = \"3m\"\ntimes = 2"),
		},
		{name: "device-fatal, but speed", runs: singleRun("[[event]]\ntype = \"device_speed_change\"\nat = \"60m\"")},
		{
			name: "unacked-events", fires: []firing{{rule: "unacked-events", from: afterHealthy(3), till: afterHealthy(30)}},
			runs: singleRun(hangingAck("60m", "60s")),
		},
		{
			// Each event is acknowledged before the plugin would kill the worker, and the next one hangs.
			name: "unacked-events, one after the other", fires: []firing{{rule: "unacked-events", from: afterHealthy(3), till: afterHealthy(10)}},
			runs: singleRun("[[fault]]\nkind = \"hang_ack\"\nat = \"60m1s\"\nfor = \"9500ms\"\nevery = \"10s\"\ntimes = 60\n" +
				"[[event]]\ntype = \"sm_change\"\nat = \"60m1s\"\nevery = \"10s\"\ntimes = 60"),
		},
		{name: "unacked-events, but soon acknowledged", runs: singleRun(hangingAck("60m", "5s"))},
	}
}

// commandFaults fail in three calls in a row after half a minute at most: one is made every ten seconds.
func commandFaults() []fault {
	failing := func(keys string) string { return "[[command]]\nat = \"60m\"\nwhat = \"fails\"\n" + keys + "\n" }
	slow := func(keys string) string { return "[[command]]\nat = \"60m\"\nwhat = \"slow\"\n" + keys + "\n" }
	stuck := firing{rule: "command-stuck", from: afterHealthy(1), till: afterHealthy(20)}
	return []fault{
		{name: "command-stuck", fires: []firing{stuck}, runs: singleRun(failing(`for = "20m"`))},
		{
			name: "command-stuck, by a query", fires: []firing{stuck},
			runs: singleRun(failing("for = \"20m\"\ncall = \"query_port\"\nstatus = \"EIO\"")),
		},
		{name: "command-stuck, but two failures", runs: singleRun(failing(`for = "19s"`))},
		{name: "command-stuck, but busy", runs: singleRun(failing("for = \"20m\"\nstatus = \"EBUSY\""))},
		{
			// A slow call is in the percentiles of the five minutes that follow.
			name: "command-slow", fires: []firing{{rule: "command-slow", from: afterHealthy(10), till: afterHealthy(25)}},
			runs: singleRun(slow("for = \"20m\"\ntook = \"2s\"")),
		},
		{name: "command-slow, but soon fast again", runs: singleRun(slow("for = \"3m\"\ntook = \"2s\""))},
		{name: "command-slow, but not very", runs: singleRun(slow("for = \"20m\"\ntook = \"900ms\""))},
		{
			name: "command-slow, but stuck", fires: []firing{stuck},
			runs: singleRun(slow("for = \"20m\"\ntook = \"2s\"") + failing(`for = "20m"`)),
		},
	}
}

func probeFaults() []fault {
	return []fault{
		{
			name: "lost-events", fires: []firing{{rule: "lost-events", from: afterHealthy(0), till: afterHealthy(15)}},
			runs: singleRun("[[fault]]\nkind = \"lost_event\"\nat = \"60m\"\nfor = \"9s\""),
		},
		{name: "lost-events, but one", runs: singleRun("[[fault]]\nkind = \"lost_event\"\nat = \"60m\"\nfor = \"2s\"")},
		{
			name: "lost-completions", fires: []firing{{rule: "lost-completions", from: afterHealthy(0), till: afterHealthy(15)}},
			runs: singleRun("[[fault]]\nkind = \"lost_completion\"\nat = \"60m\"\nfor = \"9s\""),
		},
		{name: "lost-completions, but one", runs: singleRun("[[fault]]\nkind = \"lost_completion\"\nat = \"60m\"\nfor = \"2s\"")},
		{
			name: "probe-errors", fires: []firing{{rule: "probe-errors", from: afterHealthy(0), till: afterHealthy(15)}},
			runs: singleRun("[[fault]]\nkind = \"completion_error\"\nat = \"60m\"\nfor = \"9s\""),
		},
		{name: "probe-errors, but one", runs: singleRun("[[fault]]\nkind = \"completion_error\"\nat = \"60m\"\nfor = \"1s\"")},
		{
			name: "wake-slow", fires: []firing{{rule: "wake-slow", from: afterHealthy(15)}},
			runs: singleRun("[[fault]]\nkind = \"slow\"\nat = \"60m\"\nfactor = 40"),
		},
		{name: "wake-slow, but not far", runs: singleRun("[[fault]]\nkind = \"slow\"\nat = \"60m\"\nfactor = 3")},
		{name: "wake-slow, but short", runs: singleRun("[[fault]]\nkind = \"slow\"\nat = \"60m\"\nfactor = 40\nfor = \"3s\"")},
		{name: "wake-slow, but always", runs: singleRun("[[fault]]\nkind = \"slow\"\nfactor = 40")},
	}
}

func appFaults() []fault {
	traced := func(name, timeline string, fires ...firing) fault {
		return fault{name: name, runs: singleRun(timeline), fires: fires, applications: true}
	}
	app := func(name string, experiences ...string) string {
		return fmt.Sprintf("[[app]]\nname = %q\nunit = \"job_1870\"\n%s\n", name, strings.Join(experiences, "\n"))
	}
	had := func(event string, minute int, read string) string {
		return fmt.Sprintf("event = %q\nevent_at = \"%v\"\nread_after = %q", event, afterHealthy(minute)+5*time.Second, read)
	}
	const hangs = "hang_at = \"60m\"\nhang_for = \"20m\""
	refused := func(minutes int) string {
		return fmt.Sprintf("[[fault]]\nkind = \"tracer_crash\"\nat = \"60m\"\n[[fault]]\nkind = \"tracer_refused\"\nat = \"60m\"\nfor = \"%dm\"", minutes)
	}
	const job = "python3"
	fires := firing{rule: "app-errors", from: afterHealthy(0), till: afterHealthy(30)}
	return []fault{
		traced("app-errors", app(job, had("qp_fatal", 0, "1s")), fires),
		{
			name: "app-errors, with which its series begins", applications: true, eventsAlone: true,
			runs: singleRun(app(job, had("qp_fatal", 0, "1s"))), fires: []firing{fires},
		},
		traced("app-errors, after other events",
			app(job, had("comm_est", -30, "1s"))+app(job, had("qp_access_err", 0, "1s"))+app(job, had("srq_err", 10, "1s")),
			firing{rule: "app-errors", from: afterHealthy(0), till: afterHealthy(40)}),
		traced("app-errors, but no errors",
			app(job, had("comm_est", 0, "1s"))+app(job, had("sq_drained", 0, "1s"))+app(job, had("qp_last_wqe_reached", 1, "1s"))),
		traced("app-errors, but of the own worker", app(status.WorkerComm, had("device_fatal", 0, "20m"), hangs)),
		traced("app-errors-unread", app(job, had("cq_err", 0, "20m")), fires, firing{rule: "app-errors-unread", from: afterHealthy(2), till: afterHealthy(20)}),
		traced("app-errors-unread, but soon read", app(job, had("cq_err", 0, "50s")), fires),
		traced("app-errors-unread, but no error", app(job, had("comm_est", 0, "never"))),
		traced("app-destroy-hangs", app(job, hangs), firing{rule: "app-destroy-hangs", from: afterHealthy(0), till: afterHealthy(20)}),
		traced("app-destroy-hangs, but none", app(job)),
		traced("tracer-blind", refused(40), firing{rule: "tracer-blind", from: afterHealthy(10), till: afterHealthy(40)}),
		traced("tracer-blind, but soon attached again", refused(8)),
		traced("tracer-blind, never attached", "[[fault]]\nkind = \"tracer_refused\"", firing{rule: "tracer-blind", from: 15 * time.Minute}),
	}
}

func pluginFaults() []fault {
	const cannotOpen = "[[fault]]\nkind = \"crash\"\nat = \"60m\"\n[[fault]]\nkind = \"open_error\"\nerror = \"no_permission\"\nat = \"60m\""
	const crashes = "[[fault]]\nkind = \"crash\"\nat = \"60m\"\nevery = \"5m\"\n"
	return []fault{
		{
			name: "plugin-silent", fires: []firing{{rule: "plugin-silent", from: afterHealthy(10)}},
			runs: []run{{to: afterHealthy(2)}},
		},
		{name: "plugin-silent, but soon back", runs: []run{{to: afterHealthy(2)}, {from: afterHealthy(6)}}},
		{
			name: "worker-down", runs: singleRun(cannotOpen), // each refusal counts as a restart and not as a crash
			fires: []firing{{rule: "worker-down", from: afterHealthy(2)}},
		},
		{
			name: "worker-restarts", runs: singleRun(crashes + "times = 4"),
			fires: []firing{{rule: "worker-restarts", from: afterHealthy(10), till: afterHealthy(35)}},
		},
		{name: "worker-restarts, but twice", runs: singleRun(crashes + "times = 2")},
	}
}

// histories returns the histories that fill the database. The plugin's own code
// writes them, on a clock that jumps.
func (f *fault) histories(start time.Time) []history.Config {
	var all []history.Config
	remembered := memory.New(func() time.Time { return start })
	if f.forgetful {
		remembered = nil
	}
	for _, r := range f.runs {
		to := r.to
		if to == 0 {
			to = end
		}
		all = append(all, history.Config{
			Start: start.Add(r.from), End: start.Add(to), Interval: 10 * time.Second,
			Hosts: []history.Host{{
				Name: f.name, Profile: cmp.Or(f.profile, "fleet1"), Timeline: r.timeline, Seed: 1,
				Expect: f.expect, ExpectedDown: f.expectedDown, Memory: remembered, Applications: f.applications, EventsAlone: f.eventsAlone,
				Tags: map[string]string{"site": f.name, "rack": f.name},
			}},
		})
	}
	return all
}
