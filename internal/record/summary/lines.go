package summary

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/record/timeline"
)

// How many lines of each kind a summary has at most.
const (
	maxThen    = 10
	maxAlready = 5
	maxMissing = 5
	maxUnused  = 3 // devices that are named
)

// Lines returns the summary as lines of text, without line ends.
func (s *Summary) Lines() []string {
	began, already, unused := s.ordered()
	lines := []string{row("summary", s.subject())}
	if len(began) == 0 {
		lines = append(lines, row("first", "nothing broke here in this time, as far as it was recorded"))
	}
	for i, f := range began[:min(len(began), 1+maxThen)] {
		if i == 0 {
			lines = append(lines, row("first", s.line(f)))
			if f.isApp {
				lines = append(lines, row("", "no fault of a device or port was recorded before it: the application broke first"))
			}
			continue
		}
		lines = append(lines, row("then", s.line(f)))
	}
	if more := len(began) - 1 - maxThen + s.left; more > 0 && len(began) > 0 {
		lines = append(lines, row("", fmt.Sprintf("and %d more", more)))
	}
	lines = append(lines, limit("already", already, maxAlready, s.line)...)
	if len(unused) > 0 {
		lines = append(lines, row("left out", faultsOf(unused)+", which "+s.query.Unit+" did not hold"))
	}
	return append(lines, s.missing(append(began, already...))...)
}

func row(label, text string) string { return fmt.Sprintf("%-8s %s", label, text) }

// limit returns a row for each of the first elements, and how many more there are.
func limit[T any](label string, all []T, most int, text func(T) string) []string {
	var lines []string
	for _, one := range all[:min(len(all), most)] {
		lines = append(lines, row(label, text(one)))
	}
	if more := len(all) - most; more > 0 {
		lines = append(lines, row("", fmt.Sprintf("and %d more", more)))
	}
	return lines
}

func (s *Summary) subject() string {
	hosts := s.sortedHosts()
	text := fmt.Sprintf("%d hosts", len(hosts))
	if len(hosts) == 1 {
		text = hosts[0]
	}
	if !s.query.Since.IsZero() {
		text += ", from " + clockOf(s.query.Since)
	}
	if !s.query.Until.IsZero() {
		text += ", until " + clockOf(s.query.Until)
	}
	if s.query.Unit != "" {
		text += ", unit " + s.query.Unit
	}
	return text
}

// line tells of a fault: when, where, what, why, how often, and whether it is over.
func (s *Summary) line(f *fault) string {
	where := strings.TrimSpace(f.host + " " + f.where)
	at := clockOf(f.at)
	if s.isBefore(f.at) {
		at = "before " + clockOf(s.query.Since) // the time itself may be older than the record
		if f.at.Add(1) != s.query.Since {
			at = "since " + clockOf(f.at)
		}
	}
	text := at + "  " + where + "  " + f.what
	if f.hosts != nil && f.count > 1 {
		text = fmt.Sprintf("%s  %s  %d times %s", at, where, f.count, f.what)
	}
	if more := len(f.hosts) - 1; more > 0 {
		text += ", and on " + others(more)
	}
	if f.cause != "" {
		text += ", cause " + string(f.cause)
	}
	if f.hosts == nil && f.count > 1 {
		text += fmt.Sprintf(", %d times, last at %s", f.count, clockOf(f.last))
	}
	return text + s.recovery(f)
}

func (s *Summary) recovery(f *fault) string {
	switch {
	case !f.recovers:
		return ""
	case f.ended.IsZero():
		return "; not recovered"
	case s.isAfter(f.ended):
		return "; recovered at " + clockOf(f.ended) + ", after this time"
	case f.count == 1 && !s.isBefore(f.at):
		return "; recovered after " + timeline.Duration(max(0, int64(f.ended.Sub(f.at))))
	}
	return "; recovered at " + clockOf(f.ended)
}

// missing tells what the records do not have, for the faults that are told.
func (s *Summary) missing(told []*fault) []string {
	gaps := slices.Clone(s.gaps)
	slices.SortStableFunc(gaps, func(a, b gap) int { return a.since.Compare(b.since) })
	lines := limit("missing", gaps, maxMissing, gap.line)
	var late, untraced, unclear, silent []string
	for _, name := range s.sortedHosts() {
		h := s.hosts[name]
		if h.begins.IsZero() || h.begins.After(s.query.Since) && !s.query.Since.IsZero() {
			late = append(late, name)
		}
		ofDevice := func(f *fault) bool { return f.host == name && f.device != "" }
		if s.query.Unit != "" && len(h.held) == 0 && slices.ContainsFunc(told, ofDevice) {
			unclear = append(unclear, name)
		}
		if text := s.silence(name, h); text != "" {
			silent = append(silent, text)
		}
		if !h.traced {
			untraced = append(untraced, name)
		}
	}
	lines = append(lines, limit("missing", silent, maxMissing, func(text string) string { return text })...)
	if len(late) > 0 {
		text := "the record of " + some(late) + " begins after the start of this time"
		if h := s.hosts[late[0]]; len(late) == 1 && !h.begins.IsZero() {
			text = "the record of " + late[0] + " begins at " + clockOf(h.begins)
		}
		lines = append(lines, row("missing", text))
	}
	if len(untraced) > 0 {
		lines = append(lines, row("missing", "applications were not traced on "+some(untraced)+": their errors are not here"))
	}
	if len(unclear) > 0 {
		lines = append(lines, row("missing", "which devices "+s.query.Unit+" held on "+some(unclear)+": the faults of all of them are here"))
	}
	if s.unknown > 0 {
		lines = append(lines, row("missing", fmt.Sprintf("the unit of applications with errors (%d), which may be %s or not", s.unknown, s.query.Unit)))
	}
	return lines
}

// faultsOf returns in words how many faults there are of which devices, as in "2 faults of n1 mlx5_1".
func faultsOf(faults []*fault) string {
	var devices []string
	for _, f := range faults {
		if name := f.host + " " + f.device; !slices.Contains(devices, name) && len(devices) <= maxUnused {
			devices = append(devices, name)
		}
	}
	text := fmt.Sprintf("%d faults", len(faults))
	if len(faults) == 1 {
		text = "1 fault"
	}
	if len(devices) > maxUnused {
		return text + " of " + strings.Join(devices[:maxUnused], ", ") + " and other devices"
	}
	return text + " of " + strings.Join(devices, ", ")
}

// others returns a number of further hosts in words.
func others(n int) string {
	if n == 1 {
		return "1 more host"
	}
	return fmt.Sprintf("%d more hosts", n)
}

// some names the first of several hosts.
func some(hosts []string) string {
	const most = 3
	if more := len(hosts) - most; more > 0 {
		return strings.Join(hosts[:most], ", ") + " and " + others(more)
	}
	return strings.Join(hosts, ", ")
}

func (g gap) line() string {
	span := clockOf(g.since) + " to " + clockOf(g.until)
	switch {
	case g.text != "" && g.since.IsZero():
		return g.host + "  " + g.text
	case g.text != "":
		return clockOf(g.since) + "  " + g.host + "  " + g.text
	case g.lost > 0:
		return fmt.Sprintf("%s  %s  %d records lost", span, g.host, g.lost)
	case g.step != 0:
		direction := "ahead"
		if g.step < 0 {
			direction = "back"
		}
		return fmt.Sprintf("%s  %s  the wall clock was set %s %s: times before and after cannot be compared",
			clockOf(g.since), g.host, g.step.Abs().Round(time.Millisecond), direction)
	case g.rebooted:
		return span + "  " + g.host + "  nothing recorded: the host was booted"
	}
	return span + "  " + g.host + "  nothing recorded: the plugin was restarted"
}

// clockOf writes a time for people.
func clockOf(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }
