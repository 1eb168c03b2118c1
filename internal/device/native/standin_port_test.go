//go:build linux && cgo

package native_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	facts "rdma_events/internal/device/drivers"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// doQuery queries the port.
func doQuery(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	if s.Rate != "" {
		rate := filepath.Join(s.root, "sys/class/infiniband/standin0/ports/1/rate")
		if err := standin.WriteFile(rate, s.Rate); err != nil {
			return err
		}
	}
	var err error
	s.report.Port, err = s.dev.QueryPort(1)
	s.check("query", err)
	s.check("close", s.dev.Close(long))
	return nil
}

// doPKeys makes a probe, another one after the P_Key table has changed, and a third
// after the event of that change was read.
func doPKeys(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	renew := func() {
		p, err := s.probe(verbs.MethodFlush)
		s.check("probe", err)
		if err == nil {
			s.check("close probe", p.Close(long))
		}
	}
	renew()
	pkeys := filepath.Join(s.root, "sys/class/infiniband/standin0/ports/1/pkeys")
	s.check("change", errors.Join(standin.WriteFile(pkeys+"/1", "0x7fff\n"), standin.WriteFile(pkeys+"/2", "0x8001\n")))
	renew()
	s.check("event", s.inject(event{Type: int32(verbs.EventPKeyChange), Element: 1}))
	_, err := s.dev.ReadEvents(make([]verbs.Run, 1), long)
	s.check("read", err)
	renew()
	s.check("close", s.dev.Close(long))
	return nil
}

func TestPKeyIsKeptUntilTheTableChanges(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "pkeys", GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []string{"1", "1", "2"}, argumentValues(r.Trace, "modify_qp to=init", "pkey_index"))
}

// doDownWithoutPKeys tries to make a probe on a port that is down and whose P_Keys
// cannot be read.
func doDownWithoutPKeys(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	s.PortState = int32(verbs.PortDown)
	pkey := filepath.Join(s.root, "sys/class/infiniband/standin0/ports/1/pkeys/0")
	s.check("pkeys", errors.Join(os.Remove(pkey), os.Symlink(pkey, pkey)))
	_, err := s.probe(verbs.MethodRCWrite)
	s.report.Failures = []errReport{newErrReport(err)}
	s.check("close", s.dev.Close(long))
	return nil
}

func TestDownPortIsRefusedBeforeItsPKeysAreRead(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "down without pkeys", GIDIndex: -1, PKeyIndex: -1})
	require.Equal(t, []string{"unsupported"}, r.Failures[0].Is)
	require.Contains(t, r.Failures[0].Text, "rc_write on a port that is down")
}

// doHungSysfs makes the read of a counter of the port hang, as in a driver: the counter is
// a named pipe without a writer. It reads the ledger until the read has begun, but for at
// most a second.
func doHungSysfs(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	counter := filepath.Join(s.root, "sys/class/infiniband/standin0/ports/1/counters/link_downed")
	if err := errors.Join(os.MkdirAll(filepath.Dir(counter), 0o755), unix.Mkfifo(counter, 0o600)); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.dev.QueryPort(1)
		ended <- err
	}()
	for begun := time.Now(); s.report.Busy.Call != ledger.CallReadSysfs && time.Since(begun) < time.Second; {
		s.readLedger()
	}
	w, err := os.OpenFile(counter, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	s.check("release", w.Close())
	s.check("query", <-ended)
	s.check("close", s.dev.Close(long))
	return nil
}

func TestHungReadOfSysfsIsInTheLedger(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "hung sysfs"})
	require.Equal(t, "read sysfs", r.Busy.Call.String())
	require.Positive(t, r.Busy.Since)
}

func TestAPortIsQueriedInOldAndNewLibraries(t *testing.T) {
	want := verbs.PortAttr{
		State: verbs.PortActive, Phys: 5, LinkLayer: verbs.LinkInfiniBand, MTU: 1024, LID: 17, SMLID: 1,
		Width: "4x", RateGbps: 103.125,
	}
	for _, legacy := range []bool{false, true} {
		r := mustCarryOut(t, order{Kind: "query", Legacy: legacy, LinkLayer: verbs.LinkInfiniBand})
		require.Equal(t, want, r.Port)
		require.Equal(t, legacy, bytes.Contains([]byte(calledVerbs(r.Trace)), []byte(" legacy ")))
		require.Equal(t, 2, r.Attr.Ports)
		require.Equal(t, 4, r.Attr.Vectors)
		require.Equal(t, "standin 1.0", r.Attr.Firmware)
	}
}

// With every library a query reports NDR for faster ports as well.
func TestTheRateOfAPortAboveNDRIsThatOfSysfs(t *testing.T) {
	const speedEDR, speedNDR = 32, 128
	for _, row := range []struct {
		name  string
		speed int32
		rate  string // of sysfs
		want  float64
	}{
		{"XDR", speedNDR, "800 Gb/sec (4X XDR)\n", 800},
		{"NDR", speedNDR, "400 Gb/sec (4X NDR)\n", 400},
		{"no sysfs", speedNDR, "", 400},
		{"slower than NDR, whatever sysfs says", speedEDR, "800 Gb/sec (4X XDR)\n", 103.125},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := mustCarryOut(t, order{Kind: "query", Speed: row.speed, Rate: row.rate})
			require.InDelta(t, row.want, r.Port.RateGbps, 1e-9)
			require.Equal(t, "4x", r.Port.Width)
		})
	}
}

// doRefusedLinkDowned makes reads of link_downed fail with EIO first, and succeed later.
func doRefusedLinkDowned(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	var now int64
	limits := verbs.NewRefusals(func() int64 { return now })
	s.dev.(verbs.ReadLimiter).LimitReads(limits)
	dir := filepath.Join(s.root, "sys/class/infiniband/standin0/ports/1/counters")
	file := filepath.Join(dir, "link_downed")
	s.check("make counters", os.MkdirAll(dir, 0o755))
	s.check("remove link_downed", os.RemoveAll(file))
	s.check("refuse link_downed", os.Symlink("/proc/self/mem", file)) // no memory is mapped at 0: EIO
	query := func() {
		attr, err := s.dev.QueryPort(1)
		s.check("query", err)
		s.report.LinkDowned = append(s.report.LinkDowned, attr.HasLinkDowned)
	}
	for range verbs.RefusalRow {
		query()
	}
	s.check("remove link_downed", os.RemoveAll(file))
	s.check("grant link_downed", os.WriteFile(file, []byte("7\n"), 0o600))
	query()
	limits.Retry(1)
	query()
	query()
	s.check("close", s.dev.Close(long))
	return nil
}

// doQueries queries the port three times.
func doQueries(s *subject) error {
	if p, ok := standin.FindProfile(s.Profile); ok {
		if err := p.WriteSysfs(filepath.Join(s.root, "sys"), "standin0", "uverbs0"); err != nil {
			return err
		}
	}
	if err := s.open(); err != nil {
		return err
	}
	for range 3 {
		var err error
		s.report.Port, err = s.dev.QueryPort(1)
		s.check("query", err)
	}
	s.check("close", s.dev.Close(long))
	return nil
}

func TestLinkDownedThatIsRefusedIsNotReadWithEachQuery(t *testing.T) {
	r := mustCarryOut(t, order{Kind: "refused link_downed"})
	require.Equal(t, []bool{false, false, false, false, true, true}, r.LinkDowned)
}

func TestQueriesAskForTheEffectiveRate(t *testing.T) {
	for _, row := range []struct {
		name   string
		layer  verbs.LinkLayer
		answer int32
		want   float64
		asked  int // times in three queries
	}{
		{"a LAG of two", verbs.LinkEthernet, 2000, 200, 3},
		{"hundreds of Mb/s", verbs.LinkEthernet, 1031, 103.1, 3},
		{"no speed of a port", verbs.LinkEthernet, 1<<31 - 1, 0, 3},
		{"a driver that cannot answer", verbs.LinkEthernet, -int32(unix.EOPNOTSUPP), 0, 1},
		{"an old kernel", verbs.LinkEthernet, -int32(unix.EPROTONOSUPPORT), 0, 1},
		{"firmware that refuses", verbs.LinkEthernet, -int32(unix.EIO), 0, 1},
		{"InfiniBand", verbs.LinkInfiniBand, 2000, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := mustCarryOut(t, order{Kind: "queries", LinkLayer: row.layer, Effective: row.answer})
			require.InDelta(t, row.want, r.Port.EffectiveGbps, 1e-9)
			require.Equal(t, row.asked, callCounts(r.Trace)[facts.PortSpeed])
			require.Equal(t, 3, callCounts(r.Trace)[facts.PortQuery])
		})
	}
}

func TestADriverThatIgnoresTheLinkIsKnown(t *testing.T) {
	require.True(t, mustCarryOut(t, order{Kind: "queries", Profile: "efa"}).Attr.AlwaysActive)
	require.False(t, mustCarryOut(t, order{Kind: "queries", Profile: "mana"}).Attr.AlwaysActive)
}
