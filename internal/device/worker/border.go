package worker

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/sys/status"
)

// The host does not trust a worker's messages: vendor libraries run in the worker's process, and firmware
// fills in many of the fields. This file applies two rules to every field of every message.
//
// Values from libraries, firmware and sysfs may be anything. They are converted to values that points and
// JSON can represent, or to "unknown".
//
// Values that only the worker's own code creates must be valid. Otherwise the message is an error: the
// worker's memory is damaged, and another worker takes its place.

// The limits of a message.
const (
	// maxMessage is the largest size of a message in bytes. A worker's largest message has maxBatchSize and
	// one further item, which is less.
	maxMessage = 16 << 20
	maxText    = 1 << 10 // bytes of a text; library errors with a path have about 200
	maxGIDs    = 4096    // GIDs of a port; mlx5 has up to 255 addresses, with two GIDs each
	maxList    = 64      // texts in a list
	maxFacts   = 1 << 16 // facts in one item; a worker keeps half as many (session)
	maxPort    = 255     // port numbers of verbs have one byte
	maxVector  = 1 << 16
	maxRate    = 1e6 // Gb/s
)

// ErrRefused is wrapped by the error for a message that an undamaged worker never sends.
var ErrRefused = errors.New("the worker sent what cannot be, its memory may be damaged")

func cleanText(s string) string { return sanitize.Text(s, maxText, '?') }

func cleanTexts(in []string) []string {
	var out []string
	for _, s := range in[:min(len(in), maxList)] {
		out = append(out, cleanText(s))
	}
	return out
}

// cleanRate returns 0, for unknown, if gbps cannot be the rate of a port.
func cleanRate(gbps float64) float64 {
	if math.IsNaN(gbps) || gbps < 0 || gbps > maxRate {
		return 0
	}
	return gbps
}

// cleanNumbers sets numbers that are negative or above most to 0, for unknown.
func cleanNumbers(most int, numbers ...*int) {
	for _, n := range numbers {
		if *n < 0 || *n > most {
			*n = 0
		}
	}
}

// cleanReason returns s as a Reason, or ReasonCrashed if s is not in lower snake case or too long for a reason.
func cleanReason(s string) status.Reason {
	other := func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }
	if s == "" || len(s) > 32 || strings.IndexFunc(s, other) >= 0 {
		return status.ReasonCrashed
	}
	return status.Reason(s)
}

// check checks a message for the host: it must be about the worker's device, and values that only the
// worker's own code creates must be valid. Timestamps after now, CLOCK_MONOTONIC in ns, are set to now. The
// error wraps ErrRefused.
func (m *message) check(device string, now int64) error {
	b := &m.batch
	b.Mono = clampTime(b.Mono, now)
	for i := range b.Items {
		if err := checkItem(&b.Items[i], device, now); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return nil
}

func checkItem(it *verbs.Item, device string, now int64) error {
	switch {
	case it.Opened != nil:
		return checkDevice(it.Opened, device)
	case it.Run != nil:
		return checkRun(it.Run, now)
	case it.Round != nil:
		return checkRound(it.Round, now)
	case it.Reading != nil:
		r := it.Reading
		cleanNumbers(math.MaxUint16, &r.Attr.MTU, &r.Attr.LID, &r.Attr.SMLID)
		r.Mono, r.Took = clampTime(r.Mono, now), clampTime(r.Took, now)
		return checkPort(r.Port)
	case it.Probe != nil:
		return checkKey(it.Probe.ProbeKey, verbs.MethodNone)
	case it.GIDs != nil:
		it.GIDs.Mono = clampTime(it.GIDs.Mono, now)
		return checkPort(it.GIDs.Port)
	case it.Command != nil:
		return checkCommand(it.Command, now)
	case it.Snapshot != nil:
		return checkSnapshot(it.Snapshot, now)
	case it.Objects != nil:
		it.Objects.Mono = clampTime(it.Objects.Mono, now)
	case it.FabricPort != nil:
		cleanNumbers(math.MaxUint16, &it.FabricPort.MTU, &it.FabricPort.LID)
		return checkPort(it.FabricPort.Port)
	case it.FabricFacts != nil:
		return checkFacts(it.FabricFacts, now)
	}
	return nil
}

// clampTime limits a timestamp or a duration, in ns of CLOCK_MONOTONIC, to what is possible at now: the
// clock starts at boot and is the same for all processes.
func clampTime(ns, now int64) int64 { return min(max(ns, 0), now) }

func checkPort(port int) error {
	if port < 0 || port > maxPort {
		return fmt.Errorf("port %d", port)
	}
	return nil
}

func checkDevice(a *verbs.DeviceAttr, device string) error {
	if a.Name != device {
		return fmt.Errorf("it is of %q", a.Name)
	}
	if err := checkPort(a.Ports); err != nil {
		return err
	}
	if a.Vectors < 0 || a.Vectors > maxVector {
		return fmt.Errorf("%d completion vectors", a.Vectors)
	}
	return nil
}

func checkRun(r *verbs.Run, now int64) error {
	r.First, r.Last = clampTime(r.First, now), clampTime(r.Last, now)
	for _, ns := range []*int64{&r.HoldSum, &r.AckSum} {
		*ns = max(*ns, 0)
	}
	r.HoldMax, r.AckMax = clampTime(r.HoldMax, now), clampTime(r.AckMax, now)
	if r.Count >= ledger.ImplausibleCount {
		return fmt.Errorf("%d events", r.Count)
	}
	return checkPort(r.Port)
}

func checkKey(k verbs.ProbeKey, from verbs.Method) error {
	if k.Method < from || k.Method > verbs.MethodFlush || k.Vector < 0 || k.Vector > maxVector {
		return fmt.Errorf("probe of method %d, vector %d", k.Method, k.Vector)
	}
	return checkPort(k.Port)
}

func checkRound(r *verbs.RoundItem, now int64) error {
	if r.Outcome < verbs.OutcomeSuccess || r.Outcome > verbs.OutcomeCanceled {
		return fmt.Errorf("outcome %d of a round", r.Outcome)
	}
	for _, ns := range []*int64{&r.Start, &r.Wake, &r.Get, &r.Arm, &r.Drain, &r.Hold, &r.Ack, &r.Total} {
		*ns = clampTime(*ns, now)
	}
	return checkKey(r.ProbeKey, verbs.MethodNone+1)
}

func checkCommand(c *verbs.Command, now int64) error {
	c.Mono, c.Took = clampTime(c.Mono, now), clampTime(c.Took, now)
	if c.Call < verbs.CommandHWCounters || c.Call > verbs.CommandQueryQP {
		return fmt.Errorf("command %d", c.Call)
	}
	return checkPort(c.Port)
}

func checkSnapshot(s *verbs.Snapshot, now int64) error {
	for _, ns := range []*int64{&s.At, &s.Mono, &s.Took, &s.CountersAt, &s.LinkAt} {
		*ns = clampTime(*ns, now)
	}
	if s.Merged >= ledger.ImplausibleCount {
		return fmt.Errorf("%d triggers", s.Merged)
	}
	return checkPort(s.Port)
}

func checkFacts(f *verbs.FabricFacts, now int64) error {
	if len(f.Facts) > maxFacts {
		return fmt.Errorf("%d facts", len(f.Facts))
	}
	f.UpTo = clampTime(f.UpTo, now)
	for i := range f.Facts {
		one := &f.Facts[i]
		one.At, one.Took, one.Delay = clampTime(one.At, now), clampTime(one.Took, now), clampTime(one.Delay, now)
	}
	return checkPort(f.Port)
}
