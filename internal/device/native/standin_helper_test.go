//go:build linux && cgo

package native_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

// subject is a helper process with its device.
type subject struct {
	order
	*standin.Control
	root   string
	led    *ledger.Ledger
	dev    verbs.Device
	report report
}

// long is a deadline that no call in these tests should reach.
const long = 15 * time.Second

var drivers = map[string]func(*subject) error{
	"rounds": doRounds, "failures": doFailures, "async": doAsync, "load": doLoad, "query": doQuery, "queries": doQueries,
	"hung ack": doHungAck, "hung query": doHungQuery, "hung probe": doHungProbe, "late probe": doLateProbe,
	"flush without queue pairs": doFlushWithoutQueuePairs,
	"late event":                doLateEvent,
	"stopped round":             doStoppedRound,
	"profile":                   doProfile,
	"slow commands":             doSlowCommands,
	"removal before ack":        doRemovalBeforeAck,
	"late write":                doLateWrite,
	"down without pkeys":        doDownWithoutPKeys,
	"pkeys":                     doPKeys,
	"hung sysfs":                doHungSysfs,
	"query EIO":                 doQueryEIO,
	"refused link_downed":       doRefusedLinkDowned,
	"endless events":            doEndlessEvents,
	"address away":              doAddressAway,
	"hung address":              doHungAddress,
	"silent device":             doSilentDevice,
	"flush after nudge":         doFlushAfterNudge,
	"fabric":                    doFabric,
	"hung fabric":               doHungFabric,
	"fabric profile":            doFabricProfile,
	"fabric port":               doFabricPort,
	"nudged flush":              doNudgedFlush, "stray and failure": doStrayAndFailure, "closing": doClosing, "unread": doUnread, "removal": doRemoval,
}

// runHelper carries out an order and prints its report. It returns the exit status.
func runHelper(text string) int {
	s := &subject{root: os.Getenv("STANDIN_ROOT")}
	time.AfterFunc(60*time.Second, func() { panic("the helper process hangs") })
	err := json.Unmarshal([]byte(text), &s.order)
	if err == nil {
		err = s.mapControl(os.Getenv("STANDIN_CONTROL"))
	}
	if err == nil {
		err = drivers[s.Kind](s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.report.Violation = s.BrokenRule()
	s.report.Trace = strings.Split(strings.TrimSpace(s.CallTrace()), "\n")
	if err := json.NewEncoder(os.Stdout).Encode(s.report); err != nil {
		return 1
	}
	return 0
}

func (s *subject) mapControl(path string) error {
	c, err := standin.Map(path)
	if err != nil {
		return err
	}
	s.Control = c
	s.Control.WCStatus, s.Control.PostErr = s.order.WCStatus, s.order.PostErr
	if s.order.LinkLayer != 0 {
		s.Control.LinkLayer = int32(s.order.LinkLayer)
	}
	if s.NoLayer {
		s.Control.LinkLayer = int32(verbs.LinkUnspecified)
	}
	if s.NeedsGRH {
		s.PortFlags = 1
	}
	s.Control.Speed, s.EffectiveSpeed = s.order.Speed, s.Effective
	s.EventDelayUS = int32(s.EventDelay.Microseconds())
	s.Control.Arm = s.order.Arm
	if s.OldKernel {
		s.ClosedAgain = 1
	}
	if s.order.Legacy {
		s.Control.Legacy = 1
	}
	copy(s.Control.Plan[:], s.order.Plan)
	return nil
}

func (s *subject) backend(tree, nodes string) verbs.Backend {
	return native.NewAt(sysfs.New(filepath.Join(s.root, tree)), filepath.Join(s.root, nodes))
}

func (s *subject) open() error {
	var file *os.File
	var err error
	if s.led, file, err = ledger.New("standin"); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if s.dev, err = s.backend("sys", "dev").Open("standin0", s.led); err != nil {
		return err
	}
	s.report.Attr = s.dev.Attr()
	if s.Size != int32(standin.ControlSize) {
		return fmt.Errorf("the stand-in's control page has %d bytes", s.Size)
	}
	return nil
}

func (s *subject) probe(m verbs.Method) (verbs.Probe, error) {
	return s.dev.NewProbe(verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: 1, Vector: 2, Method: m}, Timeout: s.Timeout, AckBatch: s.AckBatch,
		GIDIndex: s.GIDIndex, PKeyIndex: s.PKeyIndex,
	})
}

// unlist removes the device's node from sysfs, as the kernel does before it takes the device from processes.
func (s *subject) unlist() { s.check("unlist the device", os.RemoveAll(s.listed())) }

// list adds the device's node to sysfs again.
func (s *subject) list() error {
	return standin.WriteFile(filepath.Join(s.listed(), "ibdev"), "standin0\n")
}

func (s *subject) listed() string { return filepath.Join(s.root, "sys/class/infiniband_verbs/uverbs0") }

// openProbe opens the device and makes a probe on it.
func (s *subject) openProbe(m verbs.Method) (verbs.Probe, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	return s.probe(m)
}

// check records the error of a step under its name, if there is one.
func (s *subject) check(what string, err error) {
	if err == nil {
		return
	}
	if s.report.Errors == nil {
		s.report.Errors = map[string]errReport{}
	}
	s.report.Errors[what] = newErrReport(err)
}

func newErrReport(err error) errReport {
	if err == nil {
		return errReport{}
	}
	r := errReport{Text: err.Error()}
	for name, sentinel := range map[string]error{
		"closed": verbs.ErrClosed, "stuck": verbs.ErrStuck, "no library": verbs.ErrNoLibrary, "no device": verbs.ErrNoDevice,
		"permission": verbs.ErrPermission, "netns": verbs.ErrExcludedNetns, "unsupported": verbs.ErrUnsupported,
		"limit": verbs.ErrLimit, "recovering": verbs.ErrRecovering, "resolving": verbs.ErrResolving,
		"never fabric": verbs.ErrNeverFabric,
	} {
		if errors.Is(err, sentinel) {
			r.Is = append(r.Is, name)
		}
	}
	return r
}

// inject puts an asynchronous event into the queue, as the kernel does.
func (s *subject) inject(e event) error {
	objects := map[string]uint64{"cq": s.CQ, "qp": s.QP, "srq": s.SRQ, "wq": s.WQ}
	element := e.Element
	if e.Object != "" {
		element = objects[e.Object]
	}
	_, err := unix.Write(int(s.AsyncWrite), standin.AsyncEvent(e.Type, element))
	return err
}

// stray puts an event of the last probe's completion queue into its channel.
func (s *subject) stray() error {
	_, err := unix.Write(int(s.ChannelWrite), binary.NativeEndian.AppendUint64(nil, s.CQ))
	return err
}

// entered waits until a call hangs; release lets it continue.
func (s *subject) entered() error {
	var word [8]byte
	_, err := unix.Read(int(s.Entered), word[:])
	return err
}

func (s *subject) release() error {
	_, err := unix.Write(int(s.Gate), binary.NativeEndian.AppendUint64(nil, 1))
	return err
}

// readLedger copies the current ledger into the report.
func (s *subject) readLedger() {
	var snap ledger.Contents
	s.led.CopyTo(&snap)
	s.report.Events, s.report.Reader, s.report.Busy = snap.Events, snap.Reader, snap.LongestCall(nil)
	if len(snap.Probes) > 0 {
		s.report.Counts = snap.Probes[0].ProbeCounts
	}
	s.report.Fabrics = snap.Fabrics
}
