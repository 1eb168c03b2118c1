// Package statustext formats the status of a host for people: a screen for `rdma-events status`, and a line for
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

// WriteScreen writes a status as one screen. The line first comes at its top. Times are in the time zone of now.
func WriteScreen(w io.Writer, s *health.Status, first string, now time.Time) error {
	var b strings.Builder
	b.WriteString(joinNonEmpty("", first) + "\n")
	for i := range s.Devices {
		writeDevice(&b, &s.Devices[i], now)
	}
	if len(s.Devices) == 0 {
		b.WriteString("no devices\n")
	}
	if n := s.FunctionsSkipped; n > 0 {
		fmt.Fprintf(&b, "%s left out; virtual_functions = true watches all\n", countNoun(uint64(n), "virtual or scalable function"))
	}
	for _, p := range s.Problems {
		subject := joinNonEmpty(" ", formatPlace(p.Device, p.Port), p.ID)
		fmt.Fprintf(&b, "%-8s  %s: %s, since %s\n", p.Severity, subject, joinNonEmpty("", p.Text), formatTime(p.Since, now))
	}
	for _, p := range s.Pending {
		fmt.Fprintf(&b, "pending   %s\n", joinNonEmpty(": ", formatPlace(p.Device, p.Port), p.Text))
	}
	if s.Source == health.SourcePlugin && len(s.Problems)+len(s.Pending) == 0 {
		b.WriteString("no problems\n")
	}
	if s.Source == health.SourcePlugin && !s.MemorySince.IsZero() {
		fmt.Fprintf(&b, "what was before %s is not remembered: the plugin has no state directory, or simulated devices\n", formatTime(s.MemorySince, now))
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
	fmt.Fprintf(b, "%s: %s\n", joinNonEmpty("", d.Device),
		joinNonEmpty(", ", d.Driver, withPrefix("firmware ", d.Firmware), d.BoardID, d.PCIAddress, link, numa, describeWatch(d, now)))
	for i := range d.Ports {
		p := &d.Ports[i]
		fmt.Fprintf(b, "    port %d: %s\n", p.Port, describePort(p, now))
		for _, probe := range d.Probes {
			if probe.Port == p.Port {
				fmt.Fprintf(b, "        vector %d, %s: %s\n", probe.Vector, joinNonEmpty("", probe.Method), describeProbe(&probe))
			}
		}
		for _, c := range d.Commands {
			if c.Port == p.Port && c.Stuck {
				fmt.Fprintf(b, "        %s: %s\n", joinNonEmpty("", c.Call), describeCommand(&c))
			}
		}
	}
}

// describeWatch returns whether the device is watched and, if it is not, the reason.
func describeWatch(d *health.Device, now time.Time) string {
	since := ""
	if !d.AwaySince.IsZero() {
		since = "since " + formatTime(d.AwaySince, now)
	}
	switch {
	case d.Open:
		return "watched"
	case d.Reason == status.ReasonReleased, d.Reason == status.ReasonDeleted:
		return string(d.Reason)
	case d.Reason == status.ReasonOtherNetns:
		return joinNonEmpty(" ", string(d.Reason), since)
	case !d.Present:
		return "missing: " + string(d.Reason)
	}
	return "not watched: " + string(d.Reason)
}

func describePort(p *health.Port, now time.Time) string {
	state := cmp.Or(p.State, "unknown")
	if !p.Since.IsZero() {
		state += " since " + formatTime(p.Since, now)
	}
	flaps, expected, role := "", "", ""
	if p.Role == verbs.RoleManagement { // problems of such a port are warnings
		role = "role " + p.Role
	}
	if p.Flaps > 0 {
		flaps = countNoun(p.Flaps, "flap") + ", the last at " + formatTime(p.LastFlap, now)
	}
	switch {
	case p.ExpectedDown:
		expected = "expected to be down"
	case p.ExpectedUp != nil && p.State != verbs.PortActive.String():
		expected = expectationTexts[p.ExpectedReason]
	}
	return joinNonEmpty(", ", state, p.PhysState, describeRate(p), p.LinkLayer, p.NetDev, role, flaps, expected, describeFabric(p.Fabric))
}

// describeRate returns the rate of the port as text, with the expected rate and the best rate so far if they are
// higher.
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
	return joinNonEmpty(", ", rate, best, expected)
}

// expectationTexts explain why a port that is not active should be active or need not be.
var expectationTexts = map[expect.Reason]string{
	expect.ReasonRepresentor: "need not be active (it represents a function of the card)",
	expect.ReasonConfigured:  "should be active (configured)",
	expect.ReasonRemembered:  "should be active (remembered: it has been)",
	expect.ReasonLinkWaits:   "should be active (its link waits)",
	expect.ReasonReturned:    "need not be active (back from another network namespace)",
	expect.ReasonNeverActive: "need not be active (it never was)",
}

// describeFabric returns how many pairs are connected and how many have a problem, as in "7 of 8 pairs met, 1 bad".
func describeFabric(f *health.Fabric) string {
	if f == nil {
		return ""
	}
	return joinNonEmpty(", ", fmt.Sprintf("%d of %d pairs met", f.Met, f.Pairs), countOf(f.Bad, "bad"), countOf(f.Busy, "busy"), countOf(f.Down, "down"))
}

// countOf returns the number with a word, or "" for 0.
func countOf(n int64, what string) string {
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
	return joinNonEmpty(", ", well, wake, countNoun(p.LostEvents, "lost event"), countNoun(p.LostCompletions, "lost completion"),
		countNoun(p.Errors, "error"))
}

// describeCommand describes a call that is stuck.
func describeCommand(c *health.Command) string {
	last, lasts := "", ""
	if c.BusyNS > 0 {
		lasts = "for " + health.FormatLatency(c.BusyNS)
	} else {
		last = withPrefix("the last one ended in ", c.Status)
	}
	return joinNonEmpty(", ", joinNonEmpty(" ", "the firmware does not answer", lasts), last, countNoun(c.Errors, "error"))
}

// lineLength is the maximum length of SummaryLine. node-problem-detector cuts longer messages (max_output_length).
const lineLength = 80

// SummaryLine returns the problems of a status in one line of at most 80 characters, the most severe ones first.
// Without a critical problem it returns the pending facts, if there are any. Times are in the time zone of now.
func SummaryLine(s *health.Status, now time.Time) string {
	if len(s.Pending) > 0 && s.Worst() != alerts.Critical {
		line := "cannot tell yet"
		for _, p := range s.Pending {
			line += "; " + joinNonEmpty(": ", formatPlace(p.Device, p.Port), p.Text)
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
		longer := joinNonEmpty("; ", line, shortProblem(&s.Problems[i], now))
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

// shortProblem returns the problem as in "mlx5_1:1 port-down since 14:02" or "mlx5_0 app-destroy-hangs python3 qp 284
// since 14:02".
func shortProblem(p *health.Problem, now time.Time) string {
	detail := "since " + formatTime(p.Since, now)
	if p.ID == "worker-down" {
		detail = p.Text // the reason
	}
	return joinNonEmpty(" ", formatPlace(p.Device, p.Port), p.ID, p.Of, detail)
}

// formatPlace returns a port as in "mlx5_1:1", or the device if port is 0.
func formatPlace(device string, port int) string {
	if port == 0 {
		return device
	}
	return fmt.Sprintf("%s:%d", device, port)
}

// formatTime returns the time of day, with the date if it is not today's.
func formatTime(t, now time.Time) string {
	t = t.In(now.Location())
	layout := "15:04"
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = "2006-01-02 15:04"
	}
	return t.Format(layout)
}

// withPrefix returns the value after a prefix, or "" if the value is empty.
func withPrefix(name, value string) string {
	if value == "" {
		return ""
	}
	return name + value
}

// countNoun returns a number with its noun in singular or plural, or "" for 0.
func countNoun(n uint64, what string) string {
	if n == 0 {
		return ""
	}
	if n > 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// replaceControl replaces a control character. The status file was written by the plugin's user, and root may print it
// on a terminal.
func replaceControl(r rune) rune {
	if unicode.IsControl(r) {
		return '?'
	}
	return r
}

// joinNonEmpty joins the texts that are not empty, and replaces control characters.
func joinNonEmpty(by string, texts ...string) string {
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
	return strings.Map(replaceControl, all)
}
