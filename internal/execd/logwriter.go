package execd

import (
	"bytes"
	"io"
	"strconv"
	"sync"
)

const (
	// maxLine keeps lines far below the 64 KiB above which execd stops reading
	// standard error for good.
	maxLine = 4096
	// maxMessage bounds one message of many lines.
	maxMessage = 64 << 10
	// maxPending bounds the memory that unread log lines take.
	maxPending = 1 << 20

	truncated = "...(truncated)"
)

// LogWriter takes messages of Telegraf's redirected logger and writes them as
// execd understands them: each physical line begins with its level, as in
// "W! ". Write never waits for the reader: a goroutine in Run does, and what
// finds no room meanwhile is dropped and counted in a line of its own.
type LogWriter struct {
	w io.Writer

	mu      sync.Mutex
	pending []byte
	dropped int
	closed  bool
	wake    chan struct{} // holds one token whenever there is news for Run
}

// NewLogWriter returns a LogWriter that writes to w.
func NewLogWriter(w io.Writer) *LogWriter {
	return &LogWriter{w: w, wake: make(chan struct{}, 1)}
}

// Write takes one message. It does not block, keeps nothing of p, and never
// fails: whoever logs has no use for an error. Any goroutine may call it.
func (l *LogWriter) Write(p []byte) (int, error) {
	lines := format(p)
	l.mu.Lock()
	if l.closed || len(l.pending)+len(lines) > maxPending {
		l.dropped++
	} else {
		l.pending = append(l.pending, lines...)
	}
	l.mu.Unlock()
	l.nudge()
	return len(p), nil
}

// Run writes what Write takes, until Close was called and everything is
// written, or writing fails. It blocks while the reader does not read.
func (l *LogWriter) Run() error {
	var text []byte
	for range l.wake {
		for closed := false; ; {
			// The buffer just written, or found empty, is the next to collect in.
			text, closed = l.take(text)
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

// Close lets Run return once everything is written; later messages are dropped.
// It does not wait.
func (l *LogWriter) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.nudge()
}

// take hands over what is pending and goes on collecting in spare, so that two
// buffers serve for ever.
func (l *LogWriter) take(spare []byte) (text []byte, closed bool) {
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

func (l *LogWriter) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// format turns "2026-11-21T11:31:53Z W! (category=,plugin=) text" into lines
// that begin with "W! ". execd looks for the level at the very start of a line
// and takes anything else for an error.
func format(msg []byte) []byte {
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

// cutStamp removes the logger's RFC 3339 time in UTC, which is 20 bytes.
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

// cutAttributes removes what the logger of a plugin without name or category
// prints about itself. It comes out of a map, hence in either order.
func cutAttributes(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("(category=,plugin=) "))
	return bytes.TrimPrefix(text, []byte("(plugin=,category=) "))
}
