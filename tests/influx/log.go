package influx

import (
	"bufio"
	"io"
	"regexp"
	"strings"
	"sync"
)

// keep is how many lines of the log are kept.
const keep = 40

// logTail reads the server's log: the end of it is kept for errors, and the
// address that the kernel gave to the HTTP service stands in it.
type logTail struct {
	addr chan string // holds the address once it is known

	mu    sync.Mutex
	lines []string
}

func newLogTail() *logTail { return &logTail{addr: make(chan string, 1)} }

// read blocks until the log ends.
func (l *logTail) read(r io.Reader) {
	listening := regexp.MustCompile(`msg="Listening on HTTP".* addr=(\S+)`)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		l.add(lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			l.tell(m[1])
		}
	}
	// A line too long for the scanner is no reason to block the server.
	_, _ = io.Copy(io.Discard, r)
}

func (l *logTail) tell(addr string) {
	select {
	case l.addr <- addr:
	default:
	}
}

func (l *logTail) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == keep {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
}

// String returns what is kept.
func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
