package process

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits for the stderr of a child. Libraries of vendors may print any amount, even a line
// for each event.
const (
	stderrLine  = 1 << 10     // bytes of a line that are kept
	stderrTail  = 8 << 10     // bytes kept for the crash report ...
	stderrLead  = 2 << 10     // ... of which this many from before the crash
	stderrBurst = 20          // lines logged at once ...
	stderrEvery = time.Minute // ... and one more line per interval; a line a second would fill the records within a day
)

// stderrLog receives the stderr of a child. It logs lines up to a rate limit, keeps the last
// lines for the crash report, and finds the line that names the cause of a crash. It logs
// nothing before startLogging, because the reason of an early end quotes the last line of the
// child. It logs nothing after the cause of a crash, because the crash report follows. The
// methods may be called concurrently and block only in the logger.
type stderrLog struct {
	log  *slog.Logger
	name string // name of the child's program, such as "rdma-events-worker"
	now  func() time.Time

	mu      sync.Mutex
	open    bool   // lines are logged
	line    []byte // incomplete last line
	cut     bool   // that line was truncated
	tail    []string
	size    int // bytes in tail
	crash   string
	rate    *rate.Limiter
	dropped int
}

func newStderrLog(log *slog.Logger, name string, now func() time.Time) *stderrLog {
	return &stderrLog{log: log, name: name, now: now, rate: rate.NewLimiter(rate.Every(stderrEvery), stderrBurst)}
}

// Write implements io.Writer. A line may come in any number of pieces.
func (l *stderrLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range p {
		switch {
		case b == '\n':
			l.endLine()
		case len(l.line) < stderrLine:
			l.line = append(l.line, b)
		default:
			l.cut = true
		}
	}
	return len(p), nil
}

// crashLine matches the first line of the Go runtime's report of a signal (in C code
// too), a panic, or a fatal error.
var crashLine = regexp.MustCompile(`^(SIG[A-Z]+: |panic: |fatal error: |runtime: )`)

func (l *stderrLog) endLine() {
	line := strings.ToValidUTF8(strings.TrimRight(string(l.line), "\r"), "?")
	if l.cut {
		line += "..."
	}
	l.line, l.cut = l.line[:0], false
	if strings.TrimSpace(line) == "" {
		return
	}
	if l.crash == "" && crashLine.MatchString(line) {
		l.crash = line
		l.trim(stderrLead)
	}
	l.addToTail(line)
	if l.open {
		l.print(line)
	}
}

func (l *stderrLog) print(line string) {
	if l.crash == "" && l.allow() {
		l.log.Warn(l.name+" output", "line", line)
	}
}

// startLogging logs the lines that came so far. Later lines are logged when they come.
func (l *stderrLog) startLogging() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
	for _, line := range l.tail {
		l.print(line)
	}
}

// addToTail adds a line to the tail, which keeps the last lines. After the start of a crash
// report it keeps the first lines instead, because a traceback starts with the important thread.
func (l *stderrLog) addToTail(line string) {
	n := len(line) + 1
	if l.crash != "" && l.size+n > stderrTail {
		return
	}
	l.tail = append(l.tail, line)
	l.size += n
	l.trim(stderrTail)
}

func (l *stderrLog) trim(limit int) {
	for l.size > limit {
		l.size -= len(l.tail[0]) + 1
		l.tail = l.tail[1:]
	}
}

func (l *stderrLog) allow() bool {
	if !l.rate.AllowN(l.now(), 1) {
		l.dropped++
		return false
	}
	if l.dropped > 0 {
		l.log.Warn(fmt.Sprintf("%d lines of %s output dropped", l.dropped, l.name))
		l.dropped = 0
	}
	return true
}

// flush ends the incomplete line that the child was printing when it died.
func (l *stderrLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 {
		l.endLine()
	}
}

// report returns the line that names the crash, or "" if there was none, and the last lines.
func (l *stderrLog) report() (crash string, tail []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crash, append([]string(nil), l.tail...)
}
