package timeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"rdma_events/internal/sys/status"
)

// The kinds of a record about the plugin itself.
const (
	KindLog    = "log"
	KindPlugin = "plugin" // the plugin began
)

func pluginKinds() []kind {
	return []kind{
		{
			name: KindLog,
			words: func(_ Style, r *Record) wording {
				return wording{name: r.Level + ": " + r.Text, colour: colourIf(r.Level == "warning", yellow, plain)}
			},
		},
		{
			name:    KindPlugin,
			isWhole: func(r *Record) bool { return r.Plugin != nil },
			words: func(_ Style, r *Record) wording {
				return wording{name: fmt.Sprintf("rdma-events %s on %s, Linux %s", r.Plugin.Version, r.Plugin.Host, r.Plugin.Kernel)}
			},
		},
	}
}

// Plugin holds what a recording begins with.
type Plugin struct {
	Version string `json:"version"`
	Host    string `json:"host"`
	Kernel  string `json:"kernel"`
}

// NewLog returns a logger that passes its lines from a level on as records. add is called by
// the goroutine that logs.
func NewLog(least slog.Level, add func(Record)) *slog.Logger {
	return slog.New(&logHandler{least: least, add: add})
}

// logHandler is the slog.Handler of NewLog.
type logHandler struct {
	least slog.Level
	add   func(Record)
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.least }

// Handle implements slog.Handler. It drops lines about a removal and about calls, which have
// records of their own.
func (h *logHandler) Handle(_ context.Context, m slog.Record) error {
	r := Record{Time: m.Time, Kind: KindLog, Level: "info", Text: m.Message}
	if m.Level >= slog.LevelWarn {
		r.Level = "warning"
	}
	repeats := false
	attach := func(a slog.Attr) bool {
		switch a.Key {
		case "call":
			repeats = true
		case "device":
			r.Device = a.Value.String()
		case "reason":
			r.Reason = status.Reason(a.Value.String())
		default:
			r.Text += "; " + a.Key + ": " + a.Value.String()
		}
		return true
	}
	for _, a := range h.attrs {
		attach(a)
	}
	m.Attrs(attach)
	if repeats || r.Reason == status.ReasonRemoved {
		return nil
	}
	h.add(r)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.least, h.add, slices.Concat(h.attrs, attrs)}
}

// WithGroup implements slog.Handler. A line has no groups.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
