package live

import (
	"context"
	"log/slog"
	"slices"

	"rdma_events/internal/status"
)

// Log returns a logger whose lines are shown among the other lines. Its debug lines are
// not shown.
func (s *Screen) Log() *slog.Logger { return slog.New(&logHandler{screen: s}) }

// logHandler is the slog.Handler of a Screen.
type logHandler struct {
	screen *Screen
	attrs  []slog.Attr
}

// Enabled implements slog.Handler.
func (*logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler. It drops lines about a removal, which Emit shows.
func (h *logHandler) Handle(_ context.Context, m slog.Record) error {
	r := record{Time: m.Time, Kind: kindLog, Level: "info", Text: m.Message}
	if m.Level >= slog.LevelWarn {
		r.Level = "warning"
	}
	attach := func(a slog.Attr) bool {
		switch a.Key {
		case "device":
			r.Device = a.Value.String()
		case "reason":
			r.Reason = a.Value.String()
		default:
			r.Text += "; " + a.Key + ": " + a.Value.String()
		}
		return true
	}
	for _, a := range h.attrs {
		attach(a)
	}
	m.Attrs(attach)
	if r.Reason == string(status.ReasonRemoved) {
		return nil
	}
	h.screen.mu.Lock()
	defer h.screen.mu.Unlock()
	h.screen.add(r)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.screen, slices.Concat(h.attrs, attrs)}
}

// WithGroup implements slog.Handler. A line has no groups.
func (h *logHandler) WithGroup(string) slog.Handler { return h }
