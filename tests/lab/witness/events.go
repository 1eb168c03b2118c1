//go:build guest

package witness

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// script counts what the tracer counts, with bpftrace: the events that the kernel queues for processes by type, but those of
// ports, and the bytes that each process reads of its queue. An event has 16 bytes (struct ib_uverbs_async_event_desc). What
// a handler gets begins with a pointer to the device, the object or the port, and the type (struct ib_event).
const script = `
struct queued { unsigned long device; unsigned long element; unsigned int type; }
kprobe:ib_uverbs_qp_event_handler, kprobe:ib_uverbs_cq_event_handler, kprobe:ib_uverbs_srq_event_handler {
	@queued[((struct queued *)arg0)->type] = count();
}
kprobe:ib_uverbs_event_handler { @queued[((struct queued *)arg1)->type] = count(); }
kretprobe:ib_uverbs_async_event_read /(int64)retval > 0/ { @read[pid] = sum(retval); }
`

// probes is how many functions the script needs.
const probes = 5

// Events is a running bpftrace that counts events.
type Events struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

// EventCounts are the events that bpftrace has counted.
type EventCounts struct {
	Queued map[string]int64 // by type, without those of ports
	Read   map[int]int64    // events by process
}

// StartEvents starts bpftrace and returns when it counts.
func StartEvents(t testing.TB) *Events {
	t.Helper()
	e := &Events{cmd: exec.Command("bpftrace", "-f", "json", "-e", script)}
	e.cmd.Stdout, e.cmd.Stderr = &e.out, os.Stderr
	require.NoError(t, e.cmd.Start())
	t.Cleanup(func() { _ = e.cmd.Process.Kill() }) // it has usually ended
	guest.Eventually(t, "bpftrace counts", 3*time.Minute, func() bool {
		list, err := os.ReadFile("/sys/kernel/debug/kprobes/list")
		require.NoError(t, err)
		return strings.Count(string(list), " ib_uverbs_") == probes && !strings.Contains(string(list), "DISABLED")
	})
	return e
}

// Stop ends bpftrace and returns what it has counted.
func (e *Events) Stop(t testing.TB) EventCounts {
	t.Helper()
	require.NoError(t, e.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, e.cmd.Wait())
	all := EventCounts{map[string]int64{}, map[int]int64{}}
	lines := json.NewDecoder(&e.out)
	for lines.More() {
		var line struct {
			Type string
			Data json.RawMessage
		}
		require.NoError(t, lines.Decode(&line))
		if line.Type != "map" {
			continue
		}
		var maps map[string]map[string]int64
		require.NoError(t, json.Unmarshal(line.Data, &maps))
		for key, n := range maps["@queued"] {
			if typ := verbs.EventType(parseNumber(t, key)); typ.Scope() != verbs.ScopePort {
				all.Queued[typ.String()] = n
			}
		}
		for key, n := range maps["@read"] {
			all.Read[parseNumber(t, key)] = n / 16
		}
	}
	return all
}

func parseNumber(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
