package process

import (
	"bytes"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/sanitize"
)

// progressMark begins the lines on stdout by which a child reports its start, before the line of the handshake.
const progressMark = "rdma-events-start|"

// longestProgress is the most bytes of such a line.
const longestProgress = 128

// stepStarting is the first step of each child. By its line the host recognises the program.
const stepStarting = "starting"

// ReportProgress reports the step that the start of this child is at, such as "loading programs". Only Prepare may call it:
// afterwards stdout belongs to the handshake. A host shows the step if the start is slow.
func ReportProgress(step string) {
	step = strings.ReplaceAll(step, "\n", " ")
	line := progressMark + step[:min(len(step), longestProgress-len(progressMark)-1)] + "\n"
	_, _ = unix.Write(unix.Stdout, []byte(line)) // a host that is gone ends the child
}

// tap is the child's stdout without the lines of progress, which it passes to step. It keeps the beginning of the first other
// line, which distinguishes another program from a child of another release.
type tap struct {
	*os.File
	step func(string) // nil: no line is one of progress

	head []byte // read, and not yet passed on
	over bool   // there are no more lines of progress

	mu    sync.Mutex
	first []byte
	full  bool
}

// Read implements io.Reader.
func (t *tap) Read(p []byte) (int, error) {
	if !t.over {
		if err := t.readProgress(); err != nil && len(t.head) == 0 {
			return 0, err
		}
		t.over = true // an error comes again
	}
	n, err := copy(p, t.head), error(nil)
	if t.head = t.head[n:]; n == 0 {
		n, err = t.File.Read(p)
	}
	t.keep(p[:n])
	return n, err
}

// readProgress reads lines of progress until there is another one, whose beginning stays in head.
func (t *tap) readProgress() error {
	if t.step == nil {
		return nil
	}
	buf := make([]byte, longestProgress)
	for {
		for {
			line, rest, whole := bytes.Cut(t.head, []byte("\n"))
			step, isProgress := bytes.CutPrefix(line, []byte(progressMark))
			if !whole || !isProgress {
				break
			}
			t.step(sanitize.Printable(string(step)))
			t.head = rest
		}
		begun := t.head[:min(len(t.head), len(progressMark))]
		if !bytes.HasPrefix([]byte(progressMark), begun) || len(t.head) > longestProgress {
			return nil
		}
		n, err := t.File.Read(buf)
		t.head = append(t.head, buf[:n]...)
		if err != nil {
			return err
		}
	}
}

// keep keeps the beginning of the first line.
func (t *tap) keep(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range p {
		if t.full = t.full || b == '\n' || len(t.first) == 256; t.full {
			break
		}
		t.first = append(t.first, b)
	}
}

func (t *tap) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.first)
}
