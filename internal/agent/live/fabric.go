package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rdma_events/internal/record/timeline"
)

// pairs returns the table of the pairs, nil if it is not yet time for one.
func (s *Screen) pairs(now time.Time) *page {
	every := max(s.cfg.Every, interval)
	if inPlace := s.cfg.Colours && !s.cfg.JSON; inPlace {
		every = 0
	}
	// Half an interval is how far a tick may be late.
	if !s.table.IsZero() && now.Sub(s.table) < every-interval/2 {
		return nil
	}
	s.table = now
	all := s.cfg.Pairs()
	slices.SortStableFunc(all, func(a, b timeline.Record) int { return cmp.Compare(b.Peer.Severity(), a.Peer.Severity()) })
	p := &page{records: make([]record, 0, len(all))}
	for _, r := range all {
		r.Time = now
		p.records = append(p.records, record{Record: r})
	}
	p.lines = s.tableOf(all)
	p.plain = append([]string{now.Local().Format("15:04:05") + "  " + p.lines[0]}, p.lines[1:]...)
	return p
}

// tableOf returns a line about all pairs, one for each port that is not well, and a row for each pair below a heading.
func (s *Screen) tableOf(all []timeline.Record) []string {
	lines := append([]string{summary(all)}, s.ports(all)...)
	if len(all) == 0 {
		return lines
	}
	rows := [][]string{{"port", "peer", "verdict", "for", "sent", "lost there", "back", "echo p50", "p99", "write p50", "p99"}}
	for i := range all {
		rows = append(rows, cells(&all[i]))
	}
	align(rows)
	lines = append(lines, s.style.Paint(timeline.Dim, strings.Join(rows[0], "  ")))
	for i, row := range rows[1:] {
		peer := all[i].Peer
		row[verdictColumn] = s.style.Word(peer, len(rows[0][verdictColumn]))
		line := strings.Join(row, "  ")
		if !peer.IsWell() {
			line += "  " + peer.Line()
		}
		lines = append(lines, line)
	}
	return lines
}

// align makes all cells of a column equally wide, numbers to the right.
func align(rows [][]string) {
	for column := range rows[0] {
		width := 0
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row[column]))
		}
		for _, row := range rows {
			blanks := strings.Repeat(" ", width-utf8.RuneCountInString(row[column]))
			if column > verdictColumn {
				row[column] = blanks + row[column]
			} else {
				row[column] += blanks
			}
		}
	}
}

// verdictColumn is the column of the verdict. Those behind it are numbers.
const verdictColumn = 2

// cells returns the row of a pair.
func cells(r *timeline.Record) []string {
	p := r.Pair
	return []string{
		portOf(r), r.Peer.Name(), r.Peer.Word(), age(r.Peer.AgeNS), fmt.Sprint(p.Sent), fmt.Sprint(p.ForwardLost), fmt.Sprint(p.ReverseLost),
		latency(p.EchoNSP50), latency(p.EchoNSP99), latency(p.WriteNSP50), latency(p.WriteNSP99),
	}
}

func portOf(r *timeline.Record) string { return fmt.Sprintf("%s:%d", r.Device, r.Port) }

func age(ns int64) string { return time.Duration(ns).Truncate(time.Second).String() }

func latency(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return timeline.Duration(ns)
}

// summary says how many pairs there are, and how many of each word, the worst first.
func summary(all []timeline.Record) string {
	if len(all) == 0 {
		return "no pair yet"
	}
	counts := map[string]int{}
	var words []string
	for i := range all {
		word, _, _ := strings.Cut(all[i].Peer.Word(), ":") // without the reason
		if counts[word]++; counts[word] == 1 {
			words = append(words, word)
		}
	}
	for i, word := range words {
		words[i] = fmt.Sprintf("%d %s", counts[word], word)
	}
	return fmt.Sprintf("%d pairs: %s", len(all), strings.Join(words, ", "))
}

// ports returns a line for each port that is not well.
func (s *Screen) ports(all []timeline.Record) (lines []string) {
	seen := map[string]bool{}
	for i := range all {
		text := timeline.OwnText(all[i].Pair.OwnVerdict)
		port := portOf(&all[i])
		if text == "" || seen[port] {
			continue
		}
		seen[port] = true
		lines = append(lines, s.style.Paint(timeline.Red, fmt.Sprintf("%s  %s  %s", port, all[i].Pair.OwnVerdict, text)))
	}
	slices.Sort(lines)
	return lines
}
