package snapshot

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// Schema is the version of the Document's format. It changes when a member changes its meaning or is removed.
const Schema = 1

// Document is a snapshot. A missing part has a Call with an error.
type Document struct {
	Schema int             `json:"schema"`
	Device string          `json:"device"`
	Time   time.Time       `json:"time"` // when the snapshot was begun
	Parts  map[string]Part `json:"parts"`
	Ports  []Port          `json:"ports"`
	Calls  []Call          `json:"calls"` // in their order
}

// Part is the result of a call.
type Part = json.RawMessage

// Port has the parts of a port.
type Port struct {
	Port  int             `json:"port"`
	Parts map[string]Part `json:"parts"`
}

// Call tells how the call for one part ended.
type Call struct {
	Part   string `json:"part"`
	Port   int    `json:"port,omitempty"`
	TookNS int64  `json:"took_ns,omitempty"` // absent if it did not end, or was not made
	None   string `json:"none,omitempty"`    // why there is nothing to read
	Error  string `json:"error,omitempty"`   // why the part could not be read, or was not requested
}

// New assembles a Document from the output of the worker program. It ignores lines that are no
// Entries, such as an unfinished last line. A part that was begun and not finished gets an error.
func New(device string, begun time.Time, printed []byte) *Document {
	d := &Document{Schema: Schema, Device: device, Time: begun.UTC(), Parts: map[string]Part{}, Ports: []Port{}, Calls: []Call{}}
	var open *Entry
	for line := range bytes.Lines(printed) {
		var e Entry
		if json.Unmarshal(line, &e) != nil || e.Part == "" || e.Port < 0 {
			continue
		}
		if e.Begun {
			open = &e
			continue
		}
		open = nil
		d.addEntry(&e)
	}
	if open != nil {
		open.Error = "not answered when the process ended"
		d.addEntry(open)
	}
	return d
}

// addEntry adds the call and the value of an entry.
func (d *Document) addEntry(e *Entry) {
	d.Calls = append(d.Calls, Call{e.Part, e.Port, e.TookNS, e.None, e.Error})
	if len(e.Value) == 0 {
		return
	}
	if e.Port == 0 {
		d.Parts[e.Part] = e.Value
		return
	}
	for i := range d.Ports {
		if d.Ports[i].Port == e.Port {
			d.Ports[i].Parts[e.Part] = e.Value
			return
		}
	}
	d.Ports = append(d.Ports, Port{e.Port, map[string]Part{e.Part: e.Value}})
}

// Missing returns a line for each reason why parts could not be read, as in "gids of port 1: REASON".
func (d *Document) Missing() []string {
	var reasons []string
	parts := map[string][]string{}
	for _, c := range d.Calls {
		if c.Error == "" {
			continue
		}
		if parts[c.Error] == nil {
			reasons = append(reasons, c.Error)
		}
		parts[c.Error] = append(parts[c.Error], partName(c.Part, c.Port))
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(parts[why], ", ") + ": " + why
	}
	return reasons
}
