package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"rdma_events/internal/agent/advice"
)

// Status is the result of a check; a greater value is worse.
type Status int

// The statuses from OK on are also the exit statuses of the program.
const (
	Skipped Status = iota - 1 // nothing to examine
	OK                        // works
	Warn                      // works in part, or cannot be determined
	Fail                      // something cannot be watched
)

// String returns "SKIP", "OK", "WARN" or "FAIL".
func (s Status) String() string { return [...]string{"SKIP", "OK", "WARN", "FAIL"}[s-Skipped] }

// MarshalText implements encoding.TextMarshaler: "skipped", "ok", "warn" or "fail".
func (s Status) MarshalText() ([]byte, error) {
	if s == Skipped {
		return []byte("skipped"), nil
	}
	return []byte(strings.ToLower(s.String())), nil
}

// Result is the result of one check for one subject.
type Result struct {
	Check   string `json:"check"`             // as in "device_nodes"
	Subject string `json:"subject,omitempty"` // a device, or a port as in "mlx5_0 port 1"; "" for the host
	Status  Status `json:"status"`
	Text    string `json:"text"` // one line
	// Fix is the command that fixes the problem or shows more. It is empty for OK and Skipped. Risk is the command's
	// side effect, or "" if it has none.
	Fix  advice.Line `json:"fix,omitzero"`
	Risk string      `json:"risk,omitempty"`
}

// schema is the version of the JSON format. It changes when a field of Report is removed or changes its meaning.
const schema = 1

// Report contains the results of all checks, in order.
type Report struct {
	Schema  int      `json:"schema"`
	Version string   `json:"version"`
	Kernel  string   `json:"kernel"` // its release
	User    int      `json:"uid"`
	Status  Status   `json:"status"` // the worst status of all results
	Results []Result `json:"checks"`
}

// addResults adds the results of a check.
func (r *Report) addResults(results ...Result) {
	for _, one := range results {
		one.Risk = one.Fix.Risk()
		r.Results = append(r.Results, one)
		r.Status = max(r.Status, one.Status)
	}
}

// WriteJSON writes the report as one indented JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	r.Schema = schema
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as text for people. paint colours the text of a status; nil leaves it uncoloured.
func (r *Report) WriteText(w io.Writer, paint func(Status, string) string) error {
	if paint == nil {
		paint = func(_ Status, text string) string { return text }
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rdma-events %s, Linux %s, user %d\n", r.Version, r.Kernel, r.User)
	counts := map[Status]int{}
	for _, one := range r.Results {
		counts[one.Status]++
		subject := one.Subject
		if subject != "" {
			subject += ": "
		}
		check := strings.ReplaceAll(one.Check, "_", " ")
		fmt.Fprintf(&b, "%s  %-17s  %s%s\n", paint(one.Status, fmt.Sprintf("%-4s", one.Status)), check, subject, one.Text)
		if !one.Fix.IsZero() {
			purpose := "to see more: "
			if one.Fix.Changes() {
				purpose = "to fix it: "
			}
			fmt.Fprintf(&b, "%25s%s\n", purpose, one.Fix)
		}
		if one.Risk != "" {
			fmt.Fprintf(&b, "%25sit %s\n", "its risk: ", one.Risk)
		}
	}
	fmt.Fprintf(&b, "%d OK, %d WARN, %d FAIL", counts[OK], counts[Warn], counts[Fail])
	if n := counts[Skipped]; n > 0 {
		fmt.Fprintf(&b, ", %d skipped", n)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}
