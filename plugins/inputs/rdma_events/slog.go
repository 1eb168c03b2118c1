package rdma_events

import (
	"context"
	"log/slog"
	"strings"

	"github.com/influxdata/telegraf"
)

// logHandler passes log records of the other packages, which do not depend on Telegraf, to Telegraf's logger with their
// level. A line begins with the device and ends with the other attributes.
type logHandler struct {
	log    telegraf.Logger
	device string
	suffix string // attributes of With as text
}

// newLogger returns a logger that writes to log.
func newLogger(log telegraf.Logger) *slog.Logger { return slog.New(&logHandler{log: log}) }

// Enabled implements slog.Handler; Telegraf filters by level.
func (*logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	one := *h
	r.Attrs(func(a slog.Attr) bool {
		one.addAttr(a)
		return true
	})
	line := r.Message + one.suffix
	if one.device != "" && !strings.HasPrefix(line, one.device) {
		line = one.device + ": " + line
	}
	switch {
	case r.Level >= slog.LevelError:
		h.log.Error(line)
	case r.Level >= slog.LevelWarn:
		h.log.Warn(line)
	case r.Level >= slog.LevelInfo:
		h.log.Info(line)
	default:
		h.log.Debug(line)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	one := *h
	for _, a := range attrs {
		one.addAttr(a)
	}
	return &one
}

// WithGroup implements slog.Handler. It ignores groups, because a line of text has none.
func (h *logHandler) WithGroup(string) slog.Handler { return h }

func (h *logHandler) addAttr(a slog.Attr) {
	if a.Key == "device" {
		h.device = a.Value.String()
		return
	}
	h.suffix += ", " + a.Key + " " + a.Value.String()
}
