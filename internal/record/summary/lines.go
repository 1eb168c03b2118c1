package summary

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/record/timeline"
)

// Maximum numbers of lines of each kind in a summary.
const (
	maxThen      = 10
	maxAlready   = 5
	maxMissing   = 5
	maxUnrelated = 3 // devices that are named in that line
)

// Lines returns the summary as lines of text, without line ends.
func (s *Summary) Lines() []string {
	began, already, unrelated := s.classify()
	lines := []string{formatRow("summary", s.subjectText())}
	if len(began) == 0 {
		lines = append(lines, formatRow("first", "nothing broke here in this time, as far as it was recorded"))
	}
	for i, f := range began[:min(len(began), 1+maxThen)] {
		if i == 0 {
			lines = append(lines, formatRow("first", s.faultLine(f)))
			if f.isApp {
				lines = append(lines, formatRow("", "no fault of a device or port was recorded before it: the application broke first"))
			}
			continue
		}
		lines = append(lines, formatRow("then", s.faultLine(f)))
	}
	if more := len(began) - 1 - maxThen + s.omittedFaults; more > 0 && len(began) > 0 {
		lines = append(lines, formatRow("", fmt.Sprintf("and %d more", more)))
	}
	lines = append(lines, limitedRows("already", already, maxAlready, s.faultLine)...)
	if len(unrelated) > 0 {
		lines = append(lines, formatRow("left out", describeFaults(unrelated)+", which "+s.query.Unit+" did not hold"))
	}
	return append(lines, s.missingRows(append(began, already...))...)
}

func formatRow(label, text string) string { return fmt.Sprintf("%-8s %s", label, text) }

// limitedRows returns a row for each of the first elements, and a row with the number of further elements.
func limitedRows[T any](label string, all []T, most int, text func(T) string) []string {
	var lines []string
	for _, one := range all[:min(len(all), most)] {
		lines = append(lines, formatRow(label, text(one)))
	}
	if more := len(all) - most; more > 0 {
		lines = append(lines, formatRow("", fmt.Sprintf("and %d more", more)))
	}
	return lines
}

func (s *Summary) subjectText() string {
	hosts := s.sortedHosts()
	text := fmt.Sprintf("%d hosts", len(hosts))
	if len(hosts) == 1 {
		text = hosts[0]
	}
	if !s.query.Since.IsZero() {
		text += ", from " + formatTime(s.query.Since)
	}
	if !s.query.Until.IsZero() {
		text += ", until " + formatTime(s.query.Until)
	}
	if s.query.Unit != "" {
		text += ", unit " + s.query.Unit
	}
	return text
}

// faultLine returns the line about a fault: when, where, what, why, how often, and whether it has ended.
func (s *Summary) faultLine(f *fault) string {
	where := strings.TrimSpace(f.host + " " + f.where)
	at := formatTime(f.first)
	if s.isBefore(f.first) {
		at = "before " + formatTime(s.query.Since) // the fault may be older than its first record
		if f.first.Add(1) != s.query.Since {
			at = "since " + formatTime(f.first)
		}
	}
	text := at + "  " + where + "  " + f.what
	if f.hosts != nil && f.count > 1 {
		text = fmt.Sprintf("%s  %s  %d times %s", at, where, f.count, f.what)
	}
	if more := len(f.hosts) - 1; more > 0 {
		text += ", and on " + moreHosts(more)
	}
	if f.cause != "" {
		text += ", cause " + string(f.cause)
	}
	if f.hosts == nil && f.count > 1 {
		text += fmt.Sprintf(", %d times, last at %s", f.count, formatTime(f.last))
	}
	return text + s.recoveryText(f)
}

func (s *Summary) recoveryText(f *fault) string {
	switch {
	case !f.recovers:
		return ""
	case f.ended.IsZero() && !f.restarted.IsZero():
		return "; not noted again since the plugin was restarted at " + formatTime(f.restarted)
	case f.ended.IsZero():
		return "; not recovered"
	case s.isAfter(f.ended):
		return "; recovered at " + formatTime(f.ended) + ", after this time"
	case f.count == 1 && !s.isBefore(f.first):
		return "; recovered after " + timeline.Duration(max(0, int64(f.ended.Sub(f.first))))
	}
	return "; recovered at " + formatTime(f.ended)
}

// missingRows returns the rows about missing records that matter for the shown faults.
func (s *Summary) missingRows(shown []*fault) []string {
	gaps := slices.Clone(s.gaps)
	slices.SortStableFunc(gaps, func(a, b gap) int { return a.since.Compare(b.since) })
	lines := limitedRows("missing", gaps, maxMissing, gap.line)
	var late, untraced, unclear, silent []string
	for _, name := range s.sortedHosts() {
		h := s.hosts[name]
		if h.firstRecord.IsZero() || h.firstRecord.After(s.query.Since) && !s.query.Since.IsZero() {
			late = append(late, name)
		}
		ofDevice := func(f *fault) bool { return f.host == name && f.device != "" }
		if s.query.Unit != "" && len(h.held) == 0 && slices.ContainsFunc(shown, ofDevice) {
			unclear = append(unclear, name)
		}
		if text := s.silenceText(name, h); text != "" {
			silent = append(silent, text)
		}
		if !h.traced {
			untraced = append(untraced, name)
		}
	}
	lines = append(lines, limitedRows("missing", silent, maxMissing, func(text string) string { return text })...)
	if len(late) > 0 {
		text := "the record of " + firstHosts(late) + " begins after the start of this time"
		if h := s.hosts[late[0]]; len(late) == 1 && !h.firstRecord.IsZero() {
			text = "the record of " + late[0] + " begins at " + formatTime(h.firstRecord)
		}
		lines = append(lines, formatRow("missing", text))
	}
	if len(untraced) > 0 {
		lines = append(lines, formatRow("missing", "applications were not traced on "+firstHosts(untraced)+": their errors are not here"))
	}
	if len(unclear) > 0 {
		lines = append(lines, formatRow("missing", "which devices "+s.query.Unit+" held on "+firstHosts(unclear)+": the faults of all of them are here"))
	}
	if s.query.Unit != "" && !s.namesUnit() {
		lines = append(lines, formatRow("missing", "no record read here names "+s.query.Unit+`: check the name; units need applications.by = ["app", "unit"], `+
			"and those without errors applications.objects"))
	}
	if s.unknown > 0 {
		lines = append(lines, formatRow("missing", fmt.Sprintf("the unit of applications with errors (%d), which may be %s or not", s.unknown, s.query.Unit)))
	}
	return lines
}

// namesUnit reports whether a record of the window names the unit of the query, or the unit held a device at its start.
func (s *Summary) namesUnit() bool {
	for _, h := range s.hosts {
		if len(h.holding) > 0 {
			return true
		}
	}
	return s.named
}

// describeFaults returns the number of faults and their devices in words, such as "2 faults of n1 mlx5_1".
func describeFaults(faults []*fault) string {
	var devices []string
	for _, f := range faults {
		if name := f.host + " " + f.device; !slices.Contains(devices, name) && len(devices) <= maxUnrelated {
			devices = append(devices, name)
		}
	}
	text := fmt.Sprintf("%d faults", len(faults))
	if len(faults) == 1 {
		text = "1 fault"
	}
	if len(devices) > maxUnrelated {
		return text + " of " + strings.Join(devices[:maxUnrelated], ", ") + " and other devices"
	}
	return text + " of " + strings.Join(devices, ", ")
}

// moreHosts returns a number of further hosts in words.
func moreHosts(n int) string {
	if n == 1 {
		return "1 more host"
	}
	return fmt.Sprintf("%d more hosts", n)
}

// firstHosts returns the first hosts and the number of further hosts in words.
func firstHosts(hosts []string) string {
	const most = 3
	if more := len(hosts) - most; more > 0 {
		return strings.Join(hosts[:most], ", ") + " and " + moreHosts(more)
	}
	return strings.Join(hosts, ", ")
}

func (g gap) line() string {
	span := formatTime(g.since) + " to " + formatTime(g.until)
	switch {
	case g.text != "" && g.since.IsZero():
		return g.host + "  " + g.text
	case g.text != "":
		return formatTime(g.since) + "  " + g.host + "  " + g.text
	case g.lost > 0:
		return fmt.Sprintf("%s  %s  %d records lost", span, g.host, g.lost)
	case g.step != 0:
		direction := "ahead"
		if g.step < 0 {
			direction = "back"
		}
		return fmt.Sprintf("%s  %s  the wall clock was set %s %s: times before and after cannot be compared",
			formatTime(g.since), g.host, g.step.Abs().Round(time.Millisecond), direction)
	case g.rebooted:
		return span + "  " + g.host + "  nothing recorded: the host was booted"
	}
	return span + "  " + g.host + "  nothing recorded: the plugin was restarted"
}

// formatTime formats a time for people, in the local time zone.
func formatTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }
