package process

import (
	"bytes"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/sanitize"
)

// progressMark is the prefix of the lines on stdout in which a child reports the progress of its start. They come before the
// line of the handshake.
const progressMark = "rdma-events-start|"

// longestProgress is the maximum number of bytes in such a line.
const longestProgress = 128

// stepStarting is the first step of each child. The host recognizes the program by this line.
const stepStarting = "starting"

// ReportProgress reports the current step of the start of this child, such as "loading programs". Only Prepare may call it,
// because stdout belongs to the handshake afterwards. The host shows the step if the start is slow.
func ReportProgress(step string) {
	step = strings.ReplaceAll(step, "\n", " ")
	line := progressMark + step[:min(len(step), longestProgress-len(progressMark)-1)] + "\n"
	_, _ = unix.Write(unix.Stdout, []byte(line)) // an error means that the host has ended, which ends the child
}

// tap is the stdout of a child without the progress lines, which it passes to step. It keeps the start of the first other line,
// which distinguishes a foreign program from a child of another release.
type tap struct {
	*os.File
	step func(string) // nil: there are no progress lines

	head []byte // bytes that were read and not passed on yet
	over bool   // there are no more progress lines

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
		t.over = true // the next read returns the error again
	}
	n, err := copy(p, t.head), error(nil)
	if t.head = t.head[n:]; n == 0 {
		n, err = t.File.Read(p)
	}
	t.keep(p[:n])
	return n, err
}

// readProgress reads progress lines until another line comes. The start of that line stays in head.
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

// keep keeps the start of the first line.
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
