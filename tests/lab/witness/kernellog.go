//go:build guest

package witness

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/inspect/report"
)

// kernelWarning is the level of warnings (include/linux/kern_levels.h). What is worse has a lower number. The lines of a stack have the
// level of its first line.
const kernelWarning = 4

// KernelLog is the part of the kernel's log that begins when OpenKernelLog returned it.
type KernelLog struct{ next uint64 }

// OpenKernelLog returns the kernel's log from now on.
func OpenKernelLog(t testing.TB) *KernelLog {
	t.Helper()
	l := new(KernelLog)
	for _, r := range readKernelLog(t) {
		l.next = r.sequence + 1
	}
	return l
}

// Warnings returns the kernel's warnings and what is worse, without time stamps. Numbers and addresses in them are replaced by N, so that
// equal warnings have equal texts.
func (l *KernelLog) Warnings(t testing.TB) []string {
	t.Helper()
	var lines []string
	records := readKernelLog(t)
	if len(records) > 0 && records[0].sequence > l.next {
		t.Fatalf("read the kernel's log: records %d to %d were overwritten", l.next, records[0].sequence-1)
	}
	for _, r := range records {
		if r.sequence >= l.next && r.level <= kernelWarning {
			lines = append(lines, variable.ReplaceAllString(r.text, "N"))
		}
	}
	return lines
}

var variable = regexp.MustCompile(`\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b`)

// kernelRecord is a record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg).
type kernelRecord struct {
	level    int
	sequence uint64
	text     string
}

func readKernelLog(t testing.TB) []kernelRecord {
	t.Helper()
	log, err := report.OpenKernelLog()
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var all []kernelRecord
	for text := make([]byte, 8192); ; {
		n, err := log.Read(text)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all
		case errors.Is(err, unix.EPIPE): // records were overwritten before they were read; the next read is of the oldest one
			continue
		case err != nil:
			t.Fatalf("read the kernel's log: %v", err)
		}
		all = append(all, parseKernelRecord(t, string(text[:n])))
	}
}

// parseKernelRecord parses a record as in "4,812,51230011,-;rdma0: a warning\n KEY=value".
func parseKernelRecord(t testing.TB, record string) kernelRecord {
	t.Helper()
	head, text, ok := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !ok || len(fields) < 3 {
		t.Fatalf("parse a record of the kernel's log: %q", record)
	}
	priority, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatalf("parse the priority of a record of the kernel's log: %v in %q", err, record)
	}
	sequence, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		t.Fatalf("parse the sequence of a record of the kernel's log: %v in %q", err, record)
	}
	text, _, _ = strings.Cut(text, "\n")
	return kernelRecord{level: priority & 7, sequence: sequence, text: text}
}
