//go:build linux && cgo

package native_test

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	facts "rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
)

// The numbers of commands in docs/reference/device-commands.md are computed from drivers.Round and
// drivers.PortReading. These tests compare both with the calls that the code makes.

func init() { drivers["readings"] = doReadings }

func TestRoundMakesTheCallsOfTheTable(t *testing.T) {
	const few, many = 2, 12
	for _, m := range allMethods {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			calls := func(rounds int) facts.CallCounts {
				o := order{Kind: "rounds", Method: m, Rounds: rounds, LinkLayer: verbs.LinkEthernet, GIDIndex: -1, PKeyIndex: -1}
				return callCounts(mustCarryOut(t, o).Trace)
			}
			first, then := calls(few), calls(many)
			each := facts.CallCounts{}
			for _, call := range facts.Calls() {
				if n := then[call] - first[call]; n != 0 {
					require.Zero(t, n%(many-few), "%s: %d calls in %d rounds", call, n, many-few)
					each[call] = n / (many - few)
				}
			}
			require.Equal(t, facts.Round(m), each, "change drivers.Round and run go generate ./plugins/inputs/rdma_events")
		})
	}
}

// callCounts counts how often a trace has each call of drivers.Calls.
func callCounts(trace []string) facts.CallCounts {
	all := facts.CallCounts{}
	for _, line := range trace {
		name, _, _ := strings.Cut(line, " ")
		for _, call := range facts.Calls() {
			if name == string(call) {
				all[call]++
			}
		}
	}
	return all
}

// doReadings queries the port once, or makes a probe, and reports the files that were
// opened for it.
func doReadings(s *subject) error {
	if err := s.open(); err != nil {
		return err
	}
	dir := filepath.Join(s.root, "sys/class/infiniband/standin0/ports/1")
	for _, name := range []string{"counters/link_downed", "hw_counters/link_downed", "rate"} {
		if err := standin.WriteFile(filepath.Join(dir, name), "0\n"); err != nil {
			return err
		}
	}
	opened, err := watchOpenedFiles(dir, "counters", "hw_counters", "pkeys", ".")
	if err != nil {
		return err
	}
	if s.Method == verbs.MethodNone {
		_, err = s.dev.QueryPort(1)
	} else {
		_, err = s.probe(s.Method) // the device's close closes it
	}
	s.check("call", err)
	s.report.Opened, err = opened()
	s.check("close", s.dev.Close(long))
	return err
}

// watchOpenedFiles watches directories below dir. The returned function lists the files that were opened in them since.
func watchOpenedFiles(dir string, below ...string) (func() ([]string, error), error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for _, name := range below {
		wd, err := unix.InotifyAddWatch(fd, filepath.Join(dir, name), unix.IN_OPEN)
		if err != nil {
			return nil, err
		}
		names[wd] = name
	}
	return func() ([]string, error) {
		defer unix.Close(fd)
		raw := make([]byte, 64<<10)
		n, err := unix.Read(fd, raw)
		if err == unix.EAGAIN {
			return nil, nil
		}
		var opened []string
		for raw = raw[:max(n, 0)]; len(raw) > unix.SizeofInotifyEvent; {
			wd, mask := binary.NativeEndian.Uint32(raw), binary.NativeEndian.Uint32(raw[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(raw[12:]))
			file := strings.TrimRight(string(raw[unix.SizeofInotifyEvent:size]), "\x00")
			if mask&unix.IN_ISDIR == 0 {
				opened = append(opened, filepath.Join(names[int(wd)], file))
			}
			raw = raw[size:]
		}
		return opened, err
	}, nil
}

// One reading of a port is one query and one read of a counter; it reads no P_Key.
func TestPortReadingMakesTheCallsOfTheTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		speed int32
		more  []string
	}{
		{"EDR", 0, nil},
		{"NDR", 128, []string{"rate"}}, // reading it queries the port once more (docs/reference/device-commands.md)
	} {
		r := mustCarryOut(t, order{Kind: "readings", LinkLayer: verbs.LinkEthernet, Speed: c.speed})
		got := callCounts(r.Trace)
		rest := map[string]int{}
		for _, file := range r.Opened {
			if filepath.Base(file) == string(facts.LinkDowned) {
				got[facts.LinkDowned]++
				continue
			}
			rest[file]++
		}
		require.Equal(t, facts.PortReading(), got, c.name)
		require.Len(t, rest, len(c.more), "%s: %v", c.name, rest)
		for _, file := range c.more {
			require.Equal(t, 1, rest[file], file)
		}
	}
}

func TestNewProbeReadsPKeysUpToTheFirstFullMember(t *testing.T) {
	const want = 2 // of three in the stand-in's table
	r := mustCarryOut(t, order{Kind: "readings", Method: verbs.MethodRCWrite, LinkLayer: verbs.LinkEthernet, GIDIndex: -1, PKeyIndex: -1})
	pkeys := 0
	for _, file := range r.Opened {
		if filepath.Dir(file) == "pkeys" {
			pkeys++
		}
	}
	require.Equal(t, want, pkeys, "change the number in driversdoc and run go generate ./plugins/inputs/rdma_events")
}
