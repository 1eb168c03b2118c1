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

// pairView returns the table of the pairs, or nil if the next table is not due yet.
func (s *Screen) pairView(now time.Time) *currentView {
	every := max(s.cfg.Every, refreshInterval)
	if inPlace := s.cfg.Colours && !s.cfg.JSON; inPlace {
		every = 0
	}
	// A tick may be late by half an interval.
	if !s.lastTable.IsZero() && now.Sub(s.lastTable) < every-refreshInterval/2 {
		return nil
	}
	s.lastTable = now
	all := s.cfg.Pairs()
	slices.SortStableFunc(all, func(a, b timeline.Record) int { return cmp.Compare(b.Peer.Severity(), a.Peer.Severity()) })
	p := &currentView{records: make([]record, 0, len(all))}
	for _, r := range all {
		r.Time = now
		p.records = append(p.records, record{Record: r})
	}
	p.lines = s.pairTable(all)
	p.plain = append([]string{now.Local().Format("15:04:05") + "  " + p.lines[0]}, p.lines[1:]...)
	return p
}

// pairTable returns a line that sums up all pairs, a line for each port with a problem, and a table with a row for each
// pair.
func (s *Screen) pairTable(all []timeline.Record) []string {
	lines := append([]string{summarizePairs(all)}, s.portLines(all)...)
	if len(all) == 0 {
		return lines
	}
	rows := [][]string{{"port", "peer", "verdict", "for", "sent", "lost there", "back", "echo p50", "p99", "write p50", "p99"}}
	for i := range all {
		rows = append(rows, pairRow(&all[i]))
	}
	alignColumns(rows)
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

// alignColumns pads all cells of a column to equal width. Numbers are aligned to the right.
func alignColumns(rows [][]string) {
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

// verdictColumn is the column of the verdict. The columns after it contain numbers.
const verdictColumn = 2

// pairRow returns the cells of the row of a pair.
func pairRow(r *timeline.Record) []string {
	p := r.Pair
	return []string{
		formatPort(r), r.Peer.Name(), r.Peer.Word(), formatAge(r.Peer.AgeNS), fmt.Sprint(p.Sent), fmt.Sprint(p.ForwardLost), fmt.Sprint(p.ReverseLost),
		formatLatency(p.EchoNSP50), formatLatency(p.EchoNSP99), formatLatency(p.WriteNSP50), formatLatency(p.WriteNSP99),
	}
}

func formatPort(r *timeline.Record) string { return fmt.Sprintf("%s:%d", r.Device, r.Port) }

func formatAge(ns int64) string { return time.Duration(ns).Truncate(time.Second).String() }

func formatLatency(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return timeline.Duration(ns)
}

// summarizePairs returns the number of pairs, and the number of pairs with each verdict, the worst verdict first.
func summarizePairs(all []timeline.Record) string {
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

// portLines returns a line for each port whose own verdict is not ok.
func (s *Screen) portLines(all []timeline.Record) (lines []string) {
	seen := map[string]bool{}
	for i := range all {
		text := timeline.OwnText(all[i].Pair.OwnVerdict)
		port := formatPort(&all[i])
		if text == "" || seen[port] {
			continue
		}
		seen[port] = true
		lines = append(lines, s.style.Paint(timeline.Red, fmt.Sprintf("%s  %s  %s", port, all[i].Pair.OwnVerdict, text)))
	}
	slices.Sort(lines)
	return lines
}
