package process

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// stderrLoggerName is the name of the logger to which go-plugin copies the child's
// stderr, line by line.
const stderrLoggerName = "stderr"

// pluginLog is go-plugin's logger. It logs everything at slog's level Debug, because the
// supervisor reports everything that an operator must know. It discards go-plugin's copy of
// the child's stderr, because stderrLog handles it. go-plugin then does not parse it either.
type pluginLog struct {
	log     *slog.Logger
	name    string
	implied []any
}

var _ hclog.Logger = (*pluginLog)(nil)

func (l *pluginLog) off() bool { return l.name == stderrLoggerName }

// Log implements hclog.Logger.
func (l *pluginLog) Log(level hclog.Level, msg string, args ...any) {
	if l.off() || level == hclog.Off || level == hclog.Trace {
		return
	}
	l.log.With(l.implied...).Debug("go-plugin: "+msg, args...)
}

// Trace implements hclog.Logger.
func (l *pluginLog) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l *pluginLog) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l *pluginLog) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l *pluginLog) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l *pluginLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// IsTrace implements hclog.Logger.
func (l *pluginLog) IsTrace() bool { return false }

// IsDebug implements hclog.Logger.
func (l *pluginLog) IsDebug() bool {
	return !l.off() && l.log.Enabled(context.Background(), slog.LevelDebug)
}

// IsInfo implements hclog.Logger.
func (l *pluginLog) IsInfo() bool { return l.IsDebug() }

// IsWarn implements hclog.Logger.
func (l *pluginLog) IsWarn() bool { return l.IsDebug() }

// IsError implements hclog.Logger.
func (l *pluginLog) IsError() bool { return l.IsDebug() }

// ImpliedArgs implements hclog.Logger.
func (l *pluginLog) ImpliedArgs() []any { return l.implied }

// With implements hclog.Logger.
func (l *pluginLog) With(args ...any) hclog.Logger {
	implied := append(l.implied[:len(l.implied):len(l.implied)], args...)
	return &pluginLog{log: l.log, name: l.name, implied: implied}
}

// Name implements hclog.Logger.
func (l *pluginLog) Name() string { return l.name }

// Named implements hclog.Logger.
func (l *pluginLog) Named(name string) hclog.Logger { return l.ResetNamed(name) }

// ResetNamed implements hclog.Logger.
func (l *pluginLog) ResetNamed(name string) hclog.Logger {
	return &pluginLog{log: l.log, name: name, implied: l.implied}
}

// SetLevel implements hclog.Logger. slog's handler decides on levels.
func (l *pluginLog) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (l *pluginLog) GetLevel() hclog.Level {
	if l.off() {
		return hclog.Off
	}
	return hclog.Debug
}

// StandardLogger implements hclog.Logger. go-plugin does not ask for one.
func (l *pluginLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(io.Discard, "", 0)
}

// StandardWriter implements hclog.Logger. go-plugin does not ask for one.
func (l *pluginLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
