package report

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Header is what a manifest begins with.
type Header struct {
	Version string // of this program
	Host    string
	Began   time.Time
	Took    time.Duration
	Zone    string   // the zone of the times in texts, as in "CET (UTC+01:00)"
	Asked   []string // the arguments
	// Simulated means that the devices are not those of the host.
	Simulated bool
}

// Text returns the manifest. Equal arguments give equal texts.
func (h *Header) Text(made []Made) string {
	var b strings.Builder
	row := func(name, text string) { fmt.Fprintf(&b, "  %-22s %s\n", name, text) }
	fmt.Fprintf(&b, "A report of rdma-events %s\n\n", h.Version)
	row("host", OneLine(h.Host))
	row("made", h.Began.UTC().Format(time.RFC3339)+", and took "+h.Took.Round(100*time.Millisecond).String())
	row("time zone of texts", h.Zone)
	row("arguments", argumentsOf(h.Asked))
	if h.Simulated {
		row("devices", "simulated, not those of the host")
	}
	b.WriteString(holds)
	b.WriteString("\nFiles\n")
	row(Manifest, "this list")
	for i := range made {
		if m := &made[i]; m.Missing == nil {
			row(m.Name, fmt.Sprintf("%s; %d bytes, at %s", m.About, m.Data.Len(), m.At.UTC().Format("15:04:05Z")))
		}
	}
	for _, section := range []struct {
		title string
		lines func(*Made) []string
	}{
		{"Missing, or missing in part", (*Made).missing},
		{"Left out", (*Made).leftOut},
		{"Removed values", func(m *Made) []string { return m.Removed }},
		{"Notes", func(m *Made) []string { return m.Notes }},
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

// holds says what a reader has to look at before passing the report on.
const holds = `
It holds addresses of the host: its name, GIDs (which are its IP and MAC addresses), GUIDs, names
and states of its network devices, PCI addresses, and lines of the kernel that name one of these.
Look through it before you send it to others.
`

func argumentsOf(asked []string) string {
	if len(asked) == 0 {
		return "none"
	}
	return OneLine(strings.Join(asked, " "))
}

// missing returns a line for the file if it is missing, or for each part that it lacks.
func (m *Made) missing() []string {
	var left LeftOutError
	switch {
	case m.Missing == nil:
		return m.Lacks
	case errors.As(m.Missing, &left):
		return nil
	case m.As != "":
		return []string{"as " + m.As}
	}
	return []string{m.Missing.Error()}
}

func (m *Made) leftOut() []string {
	var left LeftOutError
	if errors.As(m.Missing, &left) && m.As == "" {
		return []string{string(left)}
	}
	return nil
}

// Missing returns what is missing, or missing in part, a line each.
func Missing(made []Made) []string {
	var all []string
	for _, m := range made {
		if m.As != "" {
			continue
		}
		for _, line := range m.missing() {
			all = append(all, m.Name+": "+OneLine(line))
		}
	}
	return all
}
