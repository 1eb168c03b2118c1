package timeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"rdma_events/internal/sys/status"
)

// Kinds of records about the plugin itself.
const (
	KindLog    = "log"
	KindPlugin = "plugin" // the plugin started
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

// Plugin describes the plugin and its host at the start of a recording.
type Plugin struct {
	Version string `json:"version"`
	Host    string `json:"host"`
	Kernel  string `json:"kernel"`
}

// NewLog returns a logger that passes each line of at least level minLevel to add as a record. The
// goroutine that logs calls add.
func NewLog(minLevel slog.Level, add func(Record)) *slog.Logger {
	return slog.New(&logHandler{minLevel: minLevel, add: add})
}

// logHandler is the slog.Handler of NewLog.
type logHandler struct {
	minLevel slog.Level
	add      func(Record)
	attrs    []slog.Attr
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.minLevel }

// Handle implements slog.Handler. It drops lines about calls and about the removal of a device,
// because they have records of their own.
func (h *logHandler) Handle(_ context.Context, m slog.Record) error {
	r := Record{Time: m.Time, Kind: KindLog, Level: "info", Text: m.Message}
	if m.Level >= slog.LevelWarn {
		r.Level = "warning"
	}
	hasOwnRecord := false
	addAttr := func(a slog.Attr) bool {
		switch a.Key {
		case "call":
			hasOwnRecord = true
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
		addAttr(a)
	}
	m.Attrs(addAttr)
	if hasOwnRecord || r.Reason == status.ReasonRemoved {
		return nil
	}
	h.add(r)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.minLevel, h.add, slices.Concat(h.attrs, attrs)}
}

// WithGroup implements slog.Handler. It ignores groups, which lines do not have.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
