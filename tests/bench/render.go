package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Render writes the report as Markdown below a head, which states where it was
// measured. The sections have the order of their first figures. Sections with
// tables only come after them.
func (r *Report) Render(w io.Writer, head string) error {
	var b strings.Builder
	b.WriteString(head)
	for _, section := range r.sections() {
		fmt.Fprintf(&b, "\n## %s\n", section)
		r.renderFigures(&b, section)
		for _, t := range r.Tables {
			if t.Section == section {
				t.render(&b)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) sections() []string {
	var all []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	for _, f := range r.Figures {
		add(f.Section)
	}
	for _, t := range r.Tables {
		add(t.Section)
	}
	return all
}

func (r *Report) in(section string) (figures []*Figure) {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Section == section {
			figures = append(figures, f)
		}
	}
	return figures
}

func (r *Report) renderFigures(b *strings.Builder, section string) {
	var notes []string
	figures := r.in(section)
	rows := Table{Head: []string{"what", "ours", "other", "ratio", "turns", "target", "met"}}
	hasBusy := slices.ContainsFunc(figures, func(f *Figure) bool { return f.BusyOurs != nil })
	if hasBusy {
		rows.Head = append(rows.Head, "beside a busy core")
	}
	for _, f := range figures {
		row := f.row()
		if hasBusy {
			row = append(row, f.renderBusy())
		}
		rows.Rows = append(rows.Rows, row)
		if f.Note != "" {
			notes = append(notes, "- "+f.What+": "+f.Note)
		}
		if f.Bound != 0 && !f.Met() {
			notes = append(notes, fmt.Sprintf("- **missed by %s %%**: %s, against %s: %s",
				formatNumber(f.miss()), f.What, cmp.Or(f.OtherIs, "the target"), cmp.Or(f.Missed, "not known why")))
		}
		if b := f.busy(); f.Bound != 0 && b.Ours != nil && !b.Met() {
			notes = append(notes, fmt.Sprintf("- **missed by %s %% beside a busy core**: %s, against %s",
				formatNumber(b.miss()), f.What, cmp.Or(f.OtherIs, "the target")))
		}
	}
	if rows.Rows == nil {
		return
	}
	rows.render(b)
	if notes != nil {
		fmt.Fprintf(b, "\n%s\n", strings.Join(notes, "\n"))
	}
}

func (f *Figure) row() []string {
	other, ratio := "", ""
	if f.Other != nil {
		other = fmt.Sprintf("%s (%s)", f.show(f.Other), f.OtherIs)
		ratio = Show(f.judged(), "")
	}
	return []string{f.What, f.show(f.Ours), other, ratio, strconv.Itoa(len(f.Ours)), f.target(), f.renderMet()}
}

// renderBusy returns the ratio, or the value if there is no other, beside a busy core,
// and whether that is within the bound.
func (f *Figure) renderBusy() string {
	b := f.busy()
	if b.Ours == nil {
		return ""
	}
	text := b.show(b.Ours)
	if b.Other != nil {
		text = Show(b.judged(), "times")
	}
	if met := b.renderMet(); met != "" {
		text += ": " + met
	}
	return text
}

func (f *Figure) show(values []float64) string { return Show(values, f.Unit) }

func (f *Figure) target() string {
	if f.Bound == 0 {
		return ""
	}
	word, unit := "at most", " times"
	if f.AtLeast {
		word = "at least"
	}
	if f.Other == nil {
		unit = " " + f.Unit
	}
	text := strings.TrimSpace(fmt.Sprintf("%s %s%s", word, formatNumber(f.Bound), unit))
	if f.Within {
		text += ", in the best turn"
	}
	if f.BusyBound != 0 {
		text += fmt.Sprintf("; %s beside a busy core", formatNumber(f.BusyBound))
	}
	return text
}

func (f *Figure) renderMet() string {
	switch {
	case f.Bound == 0:
		return ""
	case f.Met():
		return "yes"
	}
	return "**no**"
}

// Show formats the median of values with their unit, and the least and greatest
// value if they differ.
func Show(values []float64, unit string) string {
	if len(values) == 0 {
		return "none"
	}
	s := spreadOf(values)
	text := formatNumber(s.median)
	if s.min != s.max {
		text += fmt.Sprintf(" [%s to %s]", formatNumber(s.min), formatNumber(s.max))
	}
	return strings.TrimSpace(text + " " + unit)
}

// formatNumber formats a value with three significant digits, or with all digits if it
// is a whole number.
func formatNumber(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(digits, 0), 64)
}

func (t *Table) render(b *strings.Builder) {
	if t.Lead != "" {
		fmt.Fprintf(b, "\n%s\n", t.Lead)
	}
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
	for _, row := range t.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}
