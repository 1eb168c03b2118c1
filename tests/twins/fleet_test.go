package twins

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/tests/history"
)

const (
	hour = time.Hour
	// early is when the first host begins: wake-slow compares with what was an hour ago.
	early = -time.Hour
	every = 10 * time.Second // Telegraf's interval
)

// hourStart returns the start of the simulated hour.
func hourStart() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// member is a plugin on a host of the fleet.
type member struct {
	name     string // of the host: for a host with a fault, the rule that it is for
	instance string
	profile  string // of the simulator; "" is fleet1
	site     string // "" is north
	rack     string // "" is that of most hosts
	runs     []run  // nil: one that lasts for the hour
	edit     func(at time.Duration, line string) string
	fabrics  []history.Fabric

	applications bool // whether it reports applications
	eventsAlone  bool // as in history.Host
}

// run is a time in which the plugin runs. The times of its scenario count from its begin.
type run struct {
	from, to time.Duration // since the begin of the hour; to is its end if it is 0
	timeline string
}

func faultyMember(name, timeline string) member {
	return member{name: name, runs: []run{{timeline: timeline}}}
}

// appRuns returns a run that has one application with each of the experiences.
func appRuns(experiences ...string) []run {
	var r run
	for _, one := range experiences {
		r.timeline += "[[app]]\nname = \"python3\"\nunit = \"job_1870\"\n" + one + "\n"
	}
	return []run{r}
}

// hangingEvent returns the timeline of an event whose acknowledgement hangs.
func hangingEvent(at, lasts string) string {
	return fmt.Sprintf("[[fault]]\nkind = \"hang_ack\"\nat = %[1]q\nfor = %[2]q\n[[event]]\ntype = \"sm_change\"\nat = %[1]q\n", at, lasts)
}

// fleetMembers returns about thirty hosts. One of them has two plugins.
func fleetMembers() []member {
	all := []member{
		{name: "port-down", profile: "fleet2", runs: []run{{timeline: "[[link]]\nat = \"15m\"\ndown_for = \"20m\"\ndevice = \"sim0\""}}},
		{
			name: "ports-down-together", profile: "fleet8", rack: "dark",
			runs: []run{{timeline: "[[link]]\nat = \"15m\"\ndown_for = \"20m\""}},
		},
		faultyMember("port-flapping", "[[link]]\nat = \"15m\"\nevery = \"3m\"\ntimes = 4\ndown_for = \"40ms\""),
		faultyMember("link-slow", "[[link]]\nat = \"15m\"\ndown_for = \"1s\"\nlanes = 1\n[[link]]\nat = \"40m\"\ndown_for = \"1s\""),
		// The reader is held up for longer than the plugin waits for an event, so that only link_downed counts the drop.
		faultyMember("link-disagrees", hangingEvent("15m4s", "9s")+"[[link]]\nat = \"15m4500ms\"\ndown_for = \"40ms\""),
		faultyMember("gid-moved", "[[gid]]\nat = \"15m\"\nindex = 3\nto = 6\naway = \"400ms\""),
		{
			name: "sm-unstable", profile: "ib8", site: "south",
			runs: []run{{timeline: "[[event]]\ntype = \"sm_change\"\nat = \"15m\"\nevery = \"2m\"\ntimes = 3"}},
		},
		{name: "device-missing", profile: "fleet2", runs: []run{{timeline: "[[fault]]\nkind = \"removed\"\nat = \"15m\"\nfor = \"20m\"\ndevice = \"sim0\""}}},
		{name: "devices-too-few", edit: withoutTwo},
		faultyMember("device-fatal", "[[event]]\ntype = \"device_fatal\"\nat = \"15m\""),
		faultyMember("unacked-events", hangingEvent("15m", "60s")),
		faultyMember("command-stuck", "[[command]]\nat = \"15m\"\nfor = \"20m\"\nwhat = \"fails\""),
		faultyMember("command-slow", "[[command]]\nat = \"15m\"\nfor = \"20m\"\nwhat = \"slow\"\ntook = \"2s\""),
		faultyMember("probe-errors", "[[fault]]\nkind = \"completion_error\"\nat = \"15m\"\nfor = \"9s\""),
		faultyMember("lost-events", "[[fault]]\nkind = \"lost_event\"\nat = \"15m\"\nfor = \"9s\""),
		faultyMember("lost-completions", "[[fault]]\nkind = \"lost_completion\"\nat = \"15m\"\nfor = \"9s\""),
		{name: "wake-slow", runs: []run{{from: early, timeline: "[[fault]]\nkind = \"slow\"\nat = \"65m\"\nfor = \"30m\"\nfactor = 40"}}},
		{name: "plugin-silent", runs: []run{{to: 10 * time.Minute}, {from: 40 * time.Minute}}},
		faultyMember("worker-down",
			"[[fault]]\nkind = \"crash\"\nat = \"15m\"\n[[fault]]\nkind = \"open_error\"\nerror = \"no_permission\"\nat = \"15m\"\nfor = \"20m\""),
		faultyMember("worker-restarts", "[[fault]]\nkind = \"crash\"\nat = \"15m\"\nevery = \"3m\"\ntimes = 3"),
		{name: "app-errors", applications: true, eventsAlone: true, runs: appRuns("event = \"qp_fatal\"\nevent_at = \"15m\"\nread_after = \"1m\"")},
		{name: "app-errors-unread", applications: true, runs: appRuns(
			"event = \"comm_est\"\nevent_at = \"5m\"\nread_after = \"1m\"", "event = \"cq_err\"\nevent_at = \"15m\"\nread_after = \"25m\"",
		)},
		{name: "app-destroy-hangs", applications: true, runs: appRuns("hang_at = \"15m\"\nhang_for = \"25m\"")},
		{
			name: "tracer-blind", applications: true,
			runs: []run{{timeline: "[[fault]]\nkind = \"tracer_crash\"\nat = \"15m\"\n[[fault]]\nkind = \"tracer_refused\"\nat = \"15m\"\nfor = \"25m\""}},
		},
		{name: "fabric", fabrics: []history.Fabric{faultyFabric(), smallFabric(), slowFabric()}},
		{name: "link-degrading", edit: loseBlocks},
		{name: "bond-leg-down", edit: withoutLeg},
		{name: "node-missing", edit: withoutNode},
		{name: "function-removed", edit: withoutFunction},
		faultyMember("device-flapping", "[[fault]]\nkind = \"removed\"\nat = \"15m\"\nfor = \"10s\"\nevery = \"3m\"\ntimes = 3"),
		{name: "pcie-degraded", edit: halfWidth},
		{name: "plugin-late", edit: skipIntervals},
		{name: "recorder-failing", edit: loseRecords},
		{name: "twofold", instance: "a", runs: []run{{timeline: "[[link]]\nat = \"15m\"\ndown_for = \"20m\""}}},
		{name: "twofold", instance: "b", runs: []run{{timeline: "[[link]]\nat = \"15m\"\ndown_for = \"20m\""}}},
	}
	for i := len(all) - 1; i < 30; i++ {
		all = append(all, member{name: fmt.Sprintf("healthy%02d", i)})
	}
	return all
}

// skipIntervals lets a plugin skip four intervals. In the simulator the plugin is never late.
func skipIntervals(at time.Duration, line string) string {
	if at < 15*time.Minute {
		return line
	}
	return strings.Replace(line, "skipped_intervals=0i", "skipped_intervals=4i", 1)
}

// addFields adds fields to a line of a measurement.
func addFields(measurement, fields, line string) string {
	if !strings.HasPrefix(line, measurement+",") {
		return line
	}
	end := strings.LastIndexByte(line, ' ')
	return line[:end] + "," + fields + line[end:]
}

// faultLasts reports whether a fault that the simulator does not have lasts at a time.
func faultLasts(at time.Duration) bool { return 15*time.Minute <= at && at < 35*time.Minute }

// loseBlocks lets an active link lose blocks (uncorrectable FEC errors).
func loseBlocks(at time.Duration, line string) string {
	if at < 15*time.Minute {
		return addFields("rdma_port", "fec_uncorrectable_active=0i", line)
	}
	return addFields("rdma_port", "fec_uncorrectable_active=3i", line)
}

// withoutLeg has a bond lose one of its two legs.
func withoutLeg(at time.Duration, line string) string {
	if faultLasts(at) {
		return addFields("rdma_port", "legs=2i,legs_up=1i", line)
	}
	return addFields("rdma_port", "legs=2i,legs_up=2i", line)
}

// withoutTwo has a host lack two of the devices that its configuration expects.
func withoutTwo(at time.Duration, line string) string {
	if faultLasts(at) {
		return addFields("rdma_collector", "expected_missing=2i", line)
	}
	return addFields("rdma_collector", "expected_missing=0i", line)
}

// withoutNode has the device's file in /dev/infiniband missing.
func withoutNode(at time.Duration, line string) string {
	if !faultLasts(at) || !strings.HasPrefix(line, "rdma_device,") {
		return line
	}
	return strings.Replace(line, `reason="ok"`, `reason="node_missing"`, 1)
}

// withoutFunction has the kernel remove the device's PCI function once, and find it again.
func withoutFunction(at time.Duration, line string) string {
	if at < 15*time.Minute {
		return line
	}
	return strings.Replace(line, "function_removals=0i", "function_removals=1i", 1)
}

// halfWidth has the device's PCIe link lose half of its lanes.
func halfWidth(at time.Duration, line string) string {
	width := "pcie_width=16i"
	if faultLasts(at) {
		width = "pcie_width=8i"
	}
	return addFields("rdma_device", width+",pcie_width_best=16i,pcie_speed_gts=32,pcie_speed_best_gts=32", line)
}

// loseRecords lets a disk fail for some minutes, so that records are lost. The simulator has no disk.
func loseRecords(at time.Duration, line string) string {
	if at < 15*time.Minute {
		return line
	}
	return strings.NewReplacer("record_errors=0i", "record_errors=3i", "record_lost=0i", "record_lost=40i").Replace(line)
}

// lines returns what the member's plugin has emitted.
func (m *member) lines(ctx context.Context) ([]byte, error) {
	var out bytes.Buffer
	tags := map[string]string{"site": cmp.Or(m.site, "north"), "rack": cmp.Or(m.rack, "1")}
	if m.instance != "" {
		tags["instance"] = m.instance
	}
	runs := m.runs
	if runs == nil {
		runs = []run{{}}
	}
	for _, r := range runs {
		c := history.Config{
			Start: hourStart().Add(r.from), End: hourStart().Add(cmp.Or(r.to, hour)), Interval: every,
			Hosts: []history.Host{{
				Name: m.name, Profile: cmp.Or(m.profile, "fleet1"), Timeline: r.timeline, Seed: 1, Tags: tags,
				Applications: m.applications, EventsAlone: m.eventsAlone,
			}},
		}
		if err := c.Write(ctx, &out); err != nil {
			return nil, err
		}
	}
	for _, f := range m.fabrics {
		f.Start, f.End, f.Interval = hourStart(), hourStart().Add(hour), every
		if err := f.Write(&out); err != nil {
			return nil, err
		}
	}
	if m.edit == nil && m.fabrics == nil {
		return out.Bytes(), nil
	}
	return m.edited(out.String())
}

// edited returns the lines in the order of their times, as they are after the member's edit.
func (m *member) edited(lines string) ([]byte, error) {
	type timed struct {
		at   time.Duration
		line string
	}
	var all []timed
	for line := range strings.Lines(lines) {
		var ns int64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &ns); err != nil {
			return nil, fmt.Errorf("time of %q: %w", line, err)
		}
		at := time.Unix(0, ns).Sub(hourStart())
		if m.edit != nil {
			line = m.edit(at, line)
		}
		all = append(all, timed{at, line})
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	var out bytes.Buffer
	for _, one := range all {
		out.WriteString(one.line)
	}
	return out.Bytes(), nil
}
