//go:build linux && cgo

package native_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// doAsync reads the events of the order, closes a probe whose objects had some of them,
// and closes the device.
func doAsync(s *subject) error {
	p, err := s.openProbe(verbs.MethodRCWrite)
	if err != nil {
		return err
	}
	for _, e := range s.Events {
		if err := s.inject(e); err != nil {
			return err
		}
	}
	runs := make([]verbs.Run, 64)
	n, err := s.dev.ReadEvents(runs, long)
	s.check("read", err)
	s.report.Runs = runs[:n]
	n, err = s.dev.ReadEvents(runs, 0)
	s.check("read of nothing", err)
	if n != 0 {
		return fmt.Errorf("%d runs out of nothing", n)
	}
	s.check("close probe", p.Close(long))
	s.check("close", s.dev.Close(long))
	s.readLedger()
	return nil
}

func TestEachEventIsReadForWhatItIsAndAcknowledgedOnce(t *testing.T) {
	objects := map[verbs.Scope]string{verbs.ScopeCQ: "cq", verbs.ScopeQP: "qp", verbs.ScopeSRQ: "srq", verbs.ScopeWQ: "wq"}
	o := order{Kind: "async", GIDIndex: -1, PKeyIndex: -1}
	var want []ledger.EventCounts
	types := []int32{21, 22, 63, 64, 73, 1000, 1 << 30}
	for typ := range int32(21) {
		types = append(types, typ)
	}
	for _, typ := range types {
		e := event{Type: typ, Object: objects[verbs.EventType(typ).Scope()]}
		counts := ledger.EventCounts{Type: typ, Read: 1, Acked: 1}
		switch verbs.EventType(typ).Scope() {
		case verbs.ScopePort:
			e.Element, counts.Port = 2, 2
		case verbs.ScopeDevice:
			e.Element = 1 // mlx5 puts a port number here
		case verbs.ScopeUnknown:
			e.Element = 0x7f0012345678 // the pointer of an object that the library does not know
		}
		o.Events = append(o.Events, e)
		want = append(want, counts)
	}
	r := mustCarryOut(t, o)
	require.Equal(t, want, r.Events)
	require.Len(t, r.Runs, len(types))
	for i, run := range r.Runs {
		require.EqualValues(t, types[i], run.Type)
		require.EqualValues(t, want[i].Port, run.Port)
		require.EqualValues(t, 1, run.Count)
	}
	// Each event is acknowledged before the next one is read, and none is pending before a destroy.
	calls := calledVerbs(r.Trace)
	require.Equal(t, len(types), strings.Count(calls, " get_async_event ack_async_event"))
	require.Equal(t, len(types), strings.Count(calls, " ack_async_event"))
	require.Less(t, strings.LastIndex(calls, "ack_async_event"), strings.Index(calls, "destroy_"))
	require.Equal(t, []string{"0"}, argumentValues(r.Trace, "destroy_qp", "unacked"))
}

func TestEqualEventsMakeOneRun(t *testing.T) {
	o := order{Kind: "async", GIDIndex: -1, PKeyIndex: -1}
	for range 1000 {
		o.Events = append(o.Events, event{Type: int32(verbs.EventQPAccessErr), Object: "qp"})
	}
	r := mustCarryOut(t, o)
	require.Len(t, r.Runs, 1)
	require.EqualValues(t, 1000, r.Runs[0].Count)
	require.GreaterOrEqual(t, r.Runs[0].HoldSum, r.Runs[0].AckSum)
	require.Equal(t, []ledger.EventCounts{{Type: int32(verbs.EventQPAccessErr), Read: 1000, Acked: 1000}}, r.Events)
}

// doHungAck makes the acknowledgement of an event hang while the device is closed.
func doHungAck(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	s.HangCall = int32(ledger.CallAckAsyncEvent)
	if err := s.inject(event{Type: int32(verbs.EventPortErr), Element: 1}); err != nil {
		return err
	}
	go func() { _, _ = s.dev.ReadEvents(make([]verbs.Run, 1), long) }()
	if err := s.entered(); err != nil {
		return err
	}
	s.readLedger()
	begun := time.Now()
	s.check("close", s.dev.Close(missed))
	s.report.Took = time.Since(begun)
	return nil
}

func TestAnAcknowledgementThatHangsIsSeenAndGivenUp(t *testing.T) {
	r := carryOut(t, order{Kind: "hung ack"})
	require.Equal(t, []ledger.EventCounts{{Type: int32(verbs.EventPortErr), Port: 1, Read: 1}}, r.Events)
	require.Equal(t, ledger.CallAckAsyncEvent, r.Reader.Call)
	require.Equal(t, r.Reader, r.Busy)
	require.Positive(t, r.Reader.Since)
	require.Equal(t, []string{"stuck"}, r.Errors["close"].Is)
	require.GreaterOrEqual(t, r.Took, missed)
	require.Less(t, r.Took, long)
}

// doClosing closes the device while its reader reads, or waits for events.
func doClosing(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	reader := &reading{dev: s.dev, done: make(chan struct{})}
	if s.Hang != 0 {
		s.HangCall = int32(s.Hang)
		if err := s.inject(event{Type: int32(verbs.EventPortActive), Element: 1}); err != nil {
			return err
		}
	}
	go reader.run()
	if err := s.until(reader); err != nil {
		return err
	}
	closed := make(chan error, 1)
	if s.Hang != 0 {
		go func() { closed <- s.dev.Close(long) }()
		for _, err := s.dev.QueryPort(1); !errors.Is(err, verbs.ErrClosed); _, err = s.dev.QueryPort(1) {
			runtime.Gosched()
		}
	}
	if err := s.inject(event{Type: int32(verbs.EventPortErr), Element: 1}); err != nil {
		return err
	}
	if s.Hang != 0 {
		s.check("release", s.release())
	} else {
		closed <- s.dev.Close(long)
	}
	s.check("close", <-closed)
	<-reader.done
	s.report.Runs = reader.runs
	s.check("last read", reader.err)
	s.readLedger()
	return nil
}

// reading reads events until a read fails.
type reading struct {
	dev  verbs.Device
	tid  atomic.Int32
	done chan struct{}
	runs []verbs.Run
	err  error
}

func (r *reading) run() {
	defer close(r.done)
	runtime.LockOSThread()
	r.tid.Store(int32(unix.Gettid()))
	buffer := make([]verbs.Run, 8)
	for {
		n, err := r.dev.ReadEvents(buffer, -1)
		r.runs = append(r.runs, buffer[:n]...)
		if err != nil {
			r.err = err
			return
		}
	}
}

// until waits until the reader hangs as ordered, or else waits for events.
func (s *subject) until(r *reading) error {
	if s.Hang != 0 {
		return s.entered()
	}
	for {
		if tid := r.tid.Load(); tid != 0 {
			text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(text), fmt.Sprint(unix.SYS_PPOLL, " ")) {
				return nil
			}
		}
		runtime.Gosched()
	}
}

func TestAnEventThatIsReadAsTheDeviceClosesCounts(t *testing.T) {
	for _, hang := range []ledger.Call{ledger.CallNone, ledger.CallGetAsyncEvent, ledger.CallAckAsyncEvent} {
		t.Run("reader in "+hang.String(), func(t *testing.T) {
			t.Parallel()
			require.FileExists(t, "/proc/self/syscall", "it shows that the reader is in its call")
			r := carryOut(t, order{Kind: "closing", Hang: hang})
			require.Empty(t, r.Violation)
			require.Contains(t, r.Events, ledger.EventCounts{Type: int32(verbs.EventPortErr), Port: 1, Read: 1, Acked: 1})
			require.Equal(t, verbs.EventPortErr, r.Runs[len(r.Runs)-1].Type)
			require.Len(t, r.Errors, 1)
			require.Equal(t, []string{"closed"}, r.Errors["last read"].Is)
		})
	}
}

// doUnread closes the device and its probe while events are queued and no reader waits for them.
func doUnread(s *subject) error {
	if _, err := s.openProbe(verbs.MethodRCWrite); err != nil {
		return err
	}
	for _, e := range s.Events {
		if err := s.inject(e); err != nil {
			return err
		}
	}
	s.check("close", s.dev.Close(long))
	s.readLedger()
	return nil
}

func TestEventsThatNobodyHasReadAreReadAsTheDeviceCloses(t *testing.T) {
	o := order{Kind: "unread", GIDIndex: -1, PKeyIndex: -1}
	o.Events = append(o.Events, event{Type: int32(verbs.EventQPFatal), Object: "qp"})
	for range 300 { // more runs than one read returns
		o.Events = append(o.Events, event{Type: int32(verbs.EventPortErr), Element: 1}, event{Type: int32(verbs.EventPortActive), Element: 1})
	}
	r := mustCarryOut(t, o)
	require.Equal(t, []ledger.EventCounts{
		{Type: int32(verbs.EventQPFatal), Read: 1, Acked: 1},
		{Type: int32(verbs.EventPortErr), Port: 1, Read: 300, Acked: 300}, {Type: int32(verbs.EventPortActive), Port: 1, Read: 300, Acked: 300},
	}, r.Events)
	calls := calledVerbs(r.Trace)
	require.Less(t, strings.LastIndex(calls, "ack_async_event"), strings.Index(calls, "destroy_"), "the kernel drops the events of what is destroyed")
}

// doRemoval does three rounds. The device is removed in the second one.
func doRemoval(s *subject) error {
	p, err := s.openProbe(s.Method)
	if err != nil {
		return err
	}
	s.unlist()
	begun := time.Now()
	for range 3 {
		r, err := p.Round(0)
		s.check("round", err)
		s.report.Rounds = append(s.report.Rounds, roundReport{Round: r, Usable: p.Usable()})
	}
	s.report.Took = time.Since(begun)
	runs := make([]verbs.Run, 8)
	n, err := s.dev.ReadEvents(runs, long)
	s.check("read", err)
	s.report.Runs = runs[:n]
	_, err = s.dev.QueryPort(1)
	s.check("query", err)
	_, err = s.probe(s.Method)
	s.check("probe", err)
	s.check("close", s.dev.Close(long))
	s.readLedger()
	return nil
}

func TestARemovedDeviceEndsRoundsAtOnce(t *testing.T) {
	for _, row := range []struct {
		method    verbs.Method
		oldKernel bool
	}{
		{verbs.MethodRCWrite, false}, {verbs.MethodUDSend, false}, {verbs.MethodFlush, false},
		{verbs.MethodRCWrite, true}, {verbs.MethodUDSend, true}, {verbs.MethodFlush, true},
	} {
		m := row.method
		t.Run(fmt.Sprintf("%v/%t", m, row.oldKernel), func(t *testing.T) {
			t.Parallel()
			r := carryOut(t, order{Kind: "removal", Method: m, Plan: "ce R", OldKernel: row.oldKernel, GIDIndex: -1, PKeyIndex: -1})
			require.Empty(t, r.Violation)
			require.Equal(t, []verbs.Outcome{verbs.OutcomeSuccess, verbs.OutcomeError, verbs.OutcomeError}, roundOutcomes(r))
			require.Equal(t, "ibv_get_cq_event: input/output error", r.Rounds[1].Status)
			require.Equal(t, m == verbs.MethodFlush, r.Rounds[1].Usable)
			require.Less(t, r.Took, long, "no round waited for its deadline")
			require.Len(t, r.Runs, 1)
			require.Equal(t, verbs.EventDeviceFatal, r.Runs[0].Type)
			require.Equal(t, []string{"no device"}, r.Errors["query"].Is)
			require.Equal(t, []string{"no device"}, r.Errors["probe"].Is)
			if row.oldKernel && m != verbs.MethodFlush {
				require.Equal(t, []string{"no device"}, r.Errors["close"].Is, "the queue pair cannot be destroyed")
				delete(r.Errors, "close")
			}
			require.Len(t, r.Errors, 2)
		})
	}
}

// doRemovalBeforeAck destroys a probe after a removal, while the reader has an event
// of its queue pair and has not acknowledged it.
func doRemovalBeforeAck(s *subject) error {
	p, err := s.openProbe(verbs.MethodRCWrite)
	if err != nil {
		return err
	}
	s.HangCall = int32(ledger.CallAckAsyncEvent)
	if err := s.inject(event{Type: int32(verbs.EventQPFatal), Object: "qp"}); err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() {
		_, err := s.dev.ReadEvents(make([]verbs.Run, 1), long)
		read <- err
	}()
	if err := s.entered(); err != nil {
		return err
	}
	s.unlist()
	s.Removed = 1
	s.check("close probe", p.Close(long))
	s.check("release", s.release())
	s.check("read", <-read)
	s.check("close", s.dev.Close(long))
	s.readLedger()
	return nil
}

func TestDestroyAfterRemovalFreesNoUnacknowledgedObject(t *testing.T) {
	r := carryOut(t, order{Kind: "removal before ack", OldKernel: true, GIDIndex: -1, PKeyIndex: -1})
	require.Empty(t, r.Violation)
	require.Len(t, r.Errors, 1)
	require.Equal(t, []string{"no device"}, r.Errors["close probe"].Is)
	require.Equal(t, []ledger.EventCounts{{Type: int32(verbs.EventQPFatal), Read: 1, Acked: 1}}, r.Events)
}
