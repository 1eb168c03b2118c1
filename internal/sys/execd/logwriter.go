package execd

import (
	"bytes"
	"io"
	"strconv"
	"sync"

	"rdma_events/internal/sys/wake"
)

const (
	// maxLine keeps lines far below 64 KiB. After a longer line execd never reads
	// standard error again.
	maxLine = 4096
	// maxMessage limits the size of a message with many lines.
	maxMessage = 64 << 10
	// maxPending limits the memory of unread log lines.
	maxPending = 1 << 20

	truncated = "...(truncated)"
)

// LogWriter receives messages of Telegraf's redirected logger and writes them in
// execd's format: each line starts with its level, such as "W! ". Write never waits
// for the reader; only Run does. Messages that do not fit into the buffer in the
// meantime are dropped, and a separate line reports their number.
type LogWriter struct {
	w io.Writer

	mu      sync.Mutex
	pending []byte
	dropped int
	closed  bool
	wake    wake.Signal // holds a token when there is something for Run to do
}

// NewLogWriter returns a LogWriter that writes to w.
func NewLogWriter(w io.Writer) *LogWriter {
	return &LogWriter{w: w, wake: wake.New()}
}

// Write adds one message. It does not block and does not keep p. It never returns an
// error, because a logger could not handle one. It may be called concurrently.
func (l *LogWriter) Write(p []byte) (int, error) {
	lines := formatMessage(p)
	l.mu.Lock()
	if l.closed || len(l.pending)+len(lines) > maxPending {
		l.dropped++
	} else {
		l.pending = append(l.pending, lines...)
	}
	l.mu.Unlock()
	l.wake.Send()
	return len(p), nil
}

// Run writes the messages that Write added. It returns nil after Close was called and
// everything is written, or the error of a failed write. It blocks while the reader
// does not read.
func (l *LogWriter) Run() error {
	var text []byte
	for range l.wake {
		for closed := false; ; {
			// Write collects the next messages in the buffer that was just written or was empty.
			text, closed = l.takePending(text)
			if len(text) == 0 && closed {
				return nil
			}
			if len(text) == 0 {
				break
			}
			if _, err := l.w.Write(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close makes Run return after it has written everything. Later messages are dropped.
// Close does not wait for Run.
func (l *LogWriter) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wake.Send()
}

// takePending returns the pending text. It uses spare as the buffer for new messages, so
// that two buffers suffice.
func (l *LogWriter) takePending(spare []byte) (text []byte, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, l.pending = l.pending, spare[:0]
	if l.dropped > 0 {
		text = append(text, "W! "...)
		text = strconv.AppendInt(text, int64(l.dropped), 10)
		text = append(text, " log messages were dropped: standard error was not read\n"...)
		l.dropped = 0
	}
	return text, l.closed
}

// formatMessage turns "2026-11-21T11:31:53Z W! (category=,plugin=) text" into lines that
// begin with "W! ". execd expects the level at the very start of a line, and
// treats any other line as an error.
func formatMessage(msg []byte) []byte {
	msg = bytes.TrimRight(msg, "\r\n")
	if len(msg) > maxMessage {
		msg = append(bytes.Clone(msg[:maxMessage]), truncated...)
	}
	level, text := splitLevel(cutStamp(msg))
	out := make([]byte, 0, len(text)+len(level)+1)
	for line := range bytes.SplitSeq(cutAttributes(text), []byte{'\n'}) {
		out = append(out, level...)
		if len(line) > maxLine {
			out = append(append(out, line[:maxLine]...), truncated...)
		} else {
			out = append(out, line...)
		}
		out = append(out, '\n')
	}
	return out
}

// cutStamp removes the logger's RFC 3339 time in UTC, which has 20 bytes.
func cutStamp(msg []byte) []byte {
	const stamp = len("2026-11-21T11:31:53Z")
	if len(msg) > stamp+3 && msg[stamp-1] == 'Z' && msg[stamp] == ' ' && msg[stamp+2] == '!' {
		return msg[stamp+1:]
	}
	return msg
}

func splitLevel(msg []byte) (level, text []byte) {
	if len(msg) >= 3 && msg[1] == '!' && msg[2] == ' ' {
		return msg[:3], msg[3:]
	}
	return []byte("I! "), msg
}

// cutAttributes removes the attributes that the logger of a plugin without name
// and category prints. They come from a map, so their order varies.
func cutAttributes(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("(category=,plugin=) "))
	return bytes.TrimPrefix(text, []byte("(plugin=,category=) "))
}
