package influx

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// keep is the number of lines of the log that are kept.
const keep = 40

// logTail receives the server's log. It keeps the end of the log for errors, and
// finds the address that the kernel has assigned to the HTTP service.
type logTail struct {
	listening *regexp.Regexp
	addr      chan string // holds the address once it is known

	mu    sync.Mutex
	rest  []byte // the beginning of a line that is not complete yet
	lines []string
}

func newLogTail() *logTail {
	return &logTail{
		listening: regexp.MustCompile(`msg="Listening on HTTP".* addr=(\S+)`),
		addr:      make(chan string, 1),
	}
}

// Write implements io.Writer.
func (l *logTail) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		l.add(string(line))
		l.rest = rest
	}
}

func (l *logTail) add(line string) {
	if m := l.listening.FindStringSubmatch(line); m != nil {
		select {
		case l.addr <- m[1]:
		default:
		}
	}
	if len(l.lines) == keep {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
}

// String returns the lines that are kept.
func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
