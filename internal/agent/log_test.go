package agent

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// captured keeps log lines.
type captured struct {
	mu    sync.Mutex
	lines []line
}

type line struct {
	level slog.Level
	text  string // with the attributes, as in "open, device mlx5_0"
}

func (c *captured) logger() *slog.Logger { return slog.New(capturing{captured: c}) }

// at returns the lines of a level.
func (c *captured) at(level slog.Level) (texts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if l.level == level {
			texts = append(texts, l.text)
		}
	}
	return texts
}

type capturing struct {
	*captured
	attrs string
}

func (c capturing) Enabled(context.Context, slog.Level) bool { return true }

func (c capturing) Handle(_ context.Context, r slog.Record) error {
	text := r.Message + c.attrs
	r.Attrs(func(a slog.Attr) bool {
		text += ", " + a.Key + " " + a.Value.String()
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line{r.Level, text})
	return nil
}

func (c capturing) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		b.WriteString(", " + a.Key + " " + a.Value.String())
	}
	return capturing{captured: c.captured, attrs: c.attrs + b.String()}
}

func (c capturing) WithGroup(string) slog.Handler { return c }
