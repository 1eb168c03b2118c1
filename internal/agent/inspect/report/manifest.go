package report

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Header contains the facts at the beginning of a manifest.
type Header struct {
	Version string // of this program
	Host    string
	Began   time.Time
	Took    time.Duration
	Zone    string   // the zone of the times in texts, as in "CET (UTC+01:00)"
	Asked   []string // the arguments
	// Simulated means that the devices are simulated ones, not the host's.
	Simulated bool
}

// Text returns the manifest. Equal arguments give equal texts.
func (h *Header) Text(made []Result) string {
	var b strings.Builder
	row := func(name, text string) { fmt.Fprintf(&b, "  %-22s %s\n", name, text) }
	fmt.Fprintf(&b, "A report of rdma-events %s\n\n", h.Version)
	row("host", OneLine(h.Host))
	row("made", h.Began.UTC().Format(time.RFC3339)+", and took "+h.Took.Round(100*time.Millisecond).String())
	row("time zone of texts", h.Zone)
	row("arguments", formatArguments(h.Asked))
	if h.Simulated {
		row("devices", "simulated, not those of the host")
	}
	b.WriteString(privacyNotice)
	b.WriteString("\nFiles\n")
	row(ManifestName, "this list")
	for i := range made {
		if m := &made[i]; m.Missing == nil {
			row(m.Name, fmt.Sprintf("%s; %d bytes, at %s", m.About, m.Data.Len(), m.MadeAt.UTC().Format("15:04:05Z")))
		}
	}
	for _, section := range []struct {
		title string
		lines func(*Result) []string
	}{
		{"Missing, or missing in part", (*Result).missingLines},
		{"Left out", (*Result).omittedLines},
		{"Removed values", func(m *Result) []string { return m.Removed }},
		{"Notes", func(m *Result) []string { return m.Notes }},
	} {
		fmt.Fprintf(&b, "\n%s\n", section.title)
		none := true
		for i := range made {
			for _, line := range section.lines(&made[i]) {
				row(made[i].Name, OneLine(line))
				none = false
			}
		}
		if none {
			b.WriteString("  none\n")
		}
	}
	return b.String()
}

// privacyNotice lists the data to check before the report is passed on.
const privacyNotice = `
It holds addresses of the host: its name, GIDs (which are its IP and MAC addresses), GUIDs, names
and states of its network devices, PCI addresses, and lines of the kernel that name one of these.
Look through it before you send it to others.
`

func formatArguments(asked []string) string {
	if len(asked) == 0 {
		return "none"
	}
	return OneLine(strings.Join(asked, " "))
}

// missingLines returns a line for the file if it is missing, or a line for each content that it lacks.
func (m *Result) missingLines() []string {
	var left OmittedError
	switch {
	case m.Missing == nil:
		return m.Lacks
	case errors.As(m.Missing, &left):
		return nil
	case m.SameAs != "":
		return []string{"as " + m.SameAs}
	}
	return []string{m.Missing.Error()}
}

// omittedLines returns a line if the file was omitted on purpose.
func (m *Result) omittedLines() []string {
	var left OmittedError
	if errors.As(m.Missing, &left) && m.SameAs == "" {
		return []string{string(left)}
	}
	return nil
}

// MissingLines returns a line for each file or content that is missing.
func MissingLines(made []Result) []string {
	var all []string
	for _, m := range made {
		if m.SameAs != "" {
			continue
		}
		for _, line := range m.missingLines() {
			all = append(all, m.Name+": "+OneLine(line))
		}
	}
	return all
}
