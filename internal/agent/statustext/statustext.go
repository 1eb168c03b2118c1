// Package statustext writes what is known of a host for people: a screen for `rdma-events status`, and a line for
// `rdma-events health`.
package statustext

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health"
	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// WriteScreen writes a status as one screen, below a first line of the caller's. It shows times in the time zone of now.
func WriteScreen(w io.Writer, s *health.Status, first string, now time.Time) error {
	var b strings.Builder
	b.WriteString(joined("", first) + "\n")
	for i := range s.Devices {
		writeDevice(&b, &s.Devices[i], now)
	}
	if len(s.Devices) == 0 {
		b.WriteString("no devices\n")
	}
	if n := s.FunctionsSkipped; n > 0 {
		fmt.Fprintf(&b, "%s left out; virtual_functions = true watches all\n", counted(uint64(n), "virtual or scalable function"))
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "%-8s  %s: %s, since %s\n", p.Severity, joined(" ", placeOf(p.Device, p.Port), p.ID), joined("", p.Text), moment(p.Since, now))
	}
	for _, p := range s.Pending {
		fmt.Fprintf(&b, "pending   %s: %s\n", joined("", placeOf(p.Device, p.Port)), joined("", p.Text))
	}
	if s.Source == health.SourcePlugin && len(s.Problems)+len(s.Pending) == 0 {
		b.WriteString("no problems\n")
	}
	if s.Source == health.SourcePlugin && !s.MemorySince.IsZero() {
		fmt.Fprintf(&b, "what was before %s is not remembered: the plugin has no state directory\n", moment(s.MemorySince, now))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeDevice(b *strings.Builder, d *health.Device, now time.Time) {
	numa := ""
	if d.NUMANode != nil {
		numa = fmt.Sprintf("NUMA node %d", *d.NUMANode)
	}
	link := ""
	if d.PCILink != nil {
		link = verbs.PCILink(*d.PCILink).String()
	}
	fmt.Fprintf(b, "%s: %s\n", joined("", d.Device),
		joined(", ", d.Driver, named("firmware ", d.Firmware), d.BoardID, d.PCIAddress, link, numa, describeWatch(d, now)))
	for i := range d.Ports {
		p := &d.Ports[i]
		fmt.Fprintf(b, "    port %d: %s\n", p.Port, describePort(p, now))
		for _, probe := range d.Probes {
			if probe.Port == p.Port {
				fmt.Fprintf(b, "        vector %d, %s: %s\n", probe.Vector, joined("", probe.Method), describeProbe(&probe))
			}
		}
		for _, c := range d.Commands {
			if c.Port == p.Port && c.Stuck {
				fmt.Fprintf(b, "        %s: %s\n", joined("", c.Call), describeCommand(&c))
			}
		}
	}
}

// describeWatch says whether the device is watched, and why not.
func describeWatch(d *health.Device, now time.Time) string {
	since := ""
	if !d.AwaySince.IsZero() {
		since = "since " + moment(d.AwaySince, now)
	}
	switch {
	case d.Open:
		return "watched"
	case d.Reason == status.ReasonReleased, d.Reason == status.ReasonDeleted:
		return string(d.Reason)
	case d.Reason == status.ReasonOtherNetns:
		return joined(" ", string(d.Reason), since)
	case !d.Present:
		return "missing: " + string(d.Reason)
	}
	return "not watched: " + string(d.Reason)
}

func describePort(p *health.Port, now time.Time) string {
	state := cmp.Or(p.State, "unknown")
	if !p.Since.IsZero() {
		state += " since " + moment(p.Since, now)
	}
	flaps, expected, role := "", "", ""
	if p.Role == verbs.RoleManagement { // its problems are warnings
		role = "role " + p.Role
	}
	if p.Flaps > 0 {
		flaps = counted(p.Flaps, "flap") + ", the last at " + moment(p.LastFlap, now)
	}
	switch {
	case p.ExpectedDown:
		expected = "expected to be down"
	case p.ExpectedUp != nil && p.State != verbs.PortActive.String():
		expected = expectations[p.ExpectedReason]
	}
	return joined(", ", state, p.PhysState, describeRate(p), p.LinkLayer, p.NetDev, role, flaps, expected, describePairs(p.Fabric))
}

// describeRate returns the rate of the port in words, with the rate that it should have and the best that it has had where these are higher.
func describeRate(p *health.Port) string {
	rate, best, expected := "", "", ""
	if p.RateGbps > 0 {
		rate = fmt.Sprintf("%g Gbit/s (%s)", p.RateGbps, p.Width)
	}
	if p.RateExpectedGbps > p.RateGbps && p.State == verbs.PortActive.String() {
		expected = fmt.Sprintf("%g Gbit/s expected", p.RateExpectedGbps)
	}
	if p.RateBestGbps > p.RateGbps && (expected == "" || p.RateBestGbps != p.RateExpectedGbps) {
		best = fmt.Sprintf("best %g Gbit/s", p.RateBestGbps)
	}
	return joined(", ", rate, best, expected)
}

// expectations are the texts of the reasons why a port that is not active should be, or need not be.
var expectations = map[expect.Reason]string{
	expect.ReasonConfigured:  "should be active (configured)",
	expect.ReasonRemembered:  "should be active (remembered: it has been)",
	expect.ReasonLinkWaits:   "should be active (its link waits)",
	expect.ReasonReturned:    "need not be active (back from another network namespace)",
	expect.ReasonNeverActive: "need not be active (it never was)",
}

// describePairs returns how many of the pairs are not as they ought to be, as in "7 of 8 pairs met, 1 bad".
func describePairs(f *health.Fabric) string {
	if f == nil {
		return ""
	}
	return joined(", ", fmt.Sprintf("%d of %d pairs met", f.Met, f.Pairs), some(f.Bad, "bad"), some(f.Busy, "busy"), some(f.Down, "down"))
}

func some(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

func describeProbe(p *health.Probe) string {
	well, wake := "no round has ended yet", ""
	if p.OK != nil && *p.OK {
		well = "the last round is well"
	} else if p.OK != nil {
		well = "the last round failed"
	}
	if p.WakeP99NS > 0 {
		wake = "wake-up p99 " + health.FormatLatency(p.WakeP99NS)
	}
	return joined(", ", well, wake, counted(p.LostEvents, "lost event"), counted(p.LostCompletions, "lost completion"),
		counted(p.Errors, "error"))
}

// describeCommand returns what is known of calls that are stuck.
func describeCommand(c *health.Command) string {
	last, lasts := "", ""
	if c.BusyNS > 0 {
		lasts = "for " + health.FormatLatency(c.BusyNS)
	} else {
		last = named("the last one ended in ", c.Status)
	}
	return joined(", ", joined(" ", "the firmware does not answer", lasts), last, counted(c.Errors, "error"))
}

// lineLength is the most characters of Line: node-problem-detector cuts longer messages (max_output_length).
const lineLength = 80

// Line returns all problems of a status in one line of at most 80 characters, the most severe ones first; or, if there is no critical
// one, what cannot be told yet. It shows times in the time zone of now.
func Line(s *health.Status, now time.Time) string {
	if len(s.Pending) > 0 && s.Worst() != alerts.Critical {
		line := "cannot tell yet"
		for _, p := range s.Pending {
			line += "; " + joined(": ", placeOf(p.Device, p.Port), p.Text)
		}
		return line[:min(len(line), lineLength)]
	}
	if len(s.Problems) == 0 {
		ports := 0
		for _, d := range s.Devices {
			ports += len(d.Ports)
		}
		return fmt.Sprintf("no problems: %d devices, %d ports", len(s.Devices), ports)
	}
	line := ""
	for i := range s.Problems {
		longer := joined("; ", line, short(&s.Problems[i], now))
		rest := ""
		if left := len(s.Problems) - i - 1; left > 0 {
			rest = fmt.Sprintf("; %d more", left)
		}
		if len(longer)+len(rest) > lineLength && line != "" {
			rest = fmt.Sprintf("; %d more", len(s.Problems)-i)
			return line[:min(len(line), lineLength-len(rest))] + rest
		}
		line = longer
	}
	return line[:min(len(line), lineLength)]
}

// short returns the problem as in "mlx5_1:1 port-down since 14:02" or "mlx5_0 app-destroy-hangs python3 qp 284 since 14:02".
func short(p *health.Problem, now time.Time) string {
	detail := "since " + moment(p.Since, now)
	if p.ID == "worker-down" {
		detail = p.Text // the reason
	}
	return joined(" ", placeOf(p.Device, p.Port), p.ID, p.Of, detail)
}

// placeOf names a port as in "mlx5_1:1", or the device if port is 0.
func placeOf(device string, port int) string {
	if port == 0 {
		return device
	}
	return fmt.Sprintf("%s:%d", device, port)
}

// moment returns the time of day, with the date if that is not the same day.
func moment(t, now time.Time) string {
	t = t.In(now.Location())
	layout := "15:04"
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = "2006-01-02 15:04"
	}
	return t.Format(layout)
}

func named(name, value string) string {
	if value == "" {
		return ""
	}
	return name + value
}

// counted returns the number and what is counted, "" if there is none.
func counted(n uint64, what string) string {
	if n == 0 {
		return ""
	}
	if n > 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// printable replaces what a terminal would obey: root reads what the user of the plugin wrote.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return '?'
	}
	return r
}

// joined joins the texts that are not empty.
func joined(by string, texts ...string) string {
	all := ""
	for _, text := range texts {
		switch {
		case text == "":
		case all == "":
			all = text
		default:
			all += by + text
		}
	}
	return strings.Map(printable, all)
}
