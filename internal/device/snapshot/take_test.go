package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// device is an open device that answers as the test configures, and records the calls.
type device struct {
	verbs.Device // no other call is made
	ports        int
	commands     verbs.CommandSet
	took         map[string]time.Duration
	errs         map[string]error
	virtual      bool // its network device

	mu     sync.Mutex
	called []string
}

// call records a call, waits for its configured duration, and returns its configured error.
func (d *device) call(name string) error {
	d.mu.Lock()
	d.called = append(d.called, name)
	d.mu.Unlock()
	time.Sleep(d.took[name])
	return d.errs[name]
}

func (d *device) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{Name: "mlx5_0", Driver: "mlx5_core", Ports: d.ports, NUMANode: -1}
}

func (d *device) Commands() verbs.CommandSet { return d.commands }

func (d *device) ReadGIDs(port int) (verbs.GIDTable, error) {
	return verbs.GIDTable{Port: port, Entries: []verbs.GID{{Index: 3, Type: verbs.GIDRoCEv2, NetDev: "eth0"}}}, d.call("gids")
}

func (d *device) ReadNetDev(int) (verbs.NetDev, error) {
	return verbs.NetDev{Name: "eth0", AdminUp: true, HasCarrier: true, Virtual: d.virtual}, d.call("netdev")
}

func (d *device) QueryPort(int) (verbs.PortAttr, error) {
	return verbs.PortAttr{State: verbs.PortDown, LinkLayer: verbs.LinkEthernet}, d.call("attributes")
}

func (d *device) ReadCounters(_ int, from verbs.CounterSource) (map[string]uint64, error) {
	return map[string]uint64{"x": 7}, d.call(string(from))
}

func (d *device) AskLink(int) (verbs.Link, error) {
	return verbs.Link{ExtState: "no_cable"}, d.call("link")
}

// sysfsOf is the KernelReader of a device that was not opened.
type sysfsOf struct{ gone bool }

func (s sysfsOf) Device(string) verbs.DeviceAttr {
	if s.gone {
		return verbs.DeviceAttr{NUMANode: -1}
	}
	return verbs.DeviceAttr{NodeGUID: "0200:0000:0000:0001", Firmware: "22.39.2048", NUMANode: 1}
}

func (sysfsOf) Ports(string) []int                    { return []int{1, 2} }
func (sysfsOf) GIDs(string, int) ([]verbs.GID, error) { return nil, nil }

// takeSnapshot takes a snapshot of a device in a synctest bubble.
func takeSnapshot(t *testing.T, open func() (verbs.Device, error), unopened KernelReader) (doc *Document, err error) {
	t.Helper()
	var out bytes.Buffer
	begin := time.Now()
	taker := Taker{
		Device: "mlx5_0", Open: open, Kernel: unopened, Out: &out, Mono: func() int64 { return time.Since(begin).Nanoseconds() },
	}
	err = taker.Take()
	return New("mlx5_0", begin, out.Bytes()), err
}

// calls returns the parts in their order, with "!" after each missing part.
func (d *Document) calls() string {
	var all []string
	for _, c := range d.Calls {
		text := c.Part
		if c.Error != "" {
			text += "!"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestTheKernelIsAskedBeforeTheDeviceAndTheLockOfNetworkDevicesComesLast(t *testing.T) {
	d := &device{ports: 1, commands: verbs.DriverCommands("mlx5_core")}
	doc, err := takeSnapshot(t, func() (verbs.Device, error) { return d, nil }, nil)
	require.NoError(t, err)
	require.Equal(t, "attributes gids netdev attributes hw_counters counters aer link ethtool", doc.calls())
	require.Empty(t, doc.Missing())
	require.JSONEq(t, `{"driver": "mlx5_core", "ports": 1, "events_supported": false, "is_vf": false}`, string(doc.Parts["attributes"]))
	for part, want := range map[string]string{
		"attributes": `{"state": "down", "phys_state": "unknown", "link_layer": "ethernet"}`,
		"gids":       `[{"index": 3, "gid": "::", "type": "roce_v2", "netdev": "eth0"}]`,
		"netdev":     `{"name": "eth0", "admin_up": true, "carrier": false, "virtual": false}`,
		"link":       `{"ext_state": "no_cable"}`, "hw_counters": `{"x": 7}`, "ethtool": `{"x": 7}`,
	} {
		require.JSONEq(t, want, string(doc.Ports[0].Parts[part]), part)
	}
}

func TestWhatADeviceDoesNotHaveIsNotMissing(t *testing.T) {
	none := verbs.NewOpError("read", "ib0", 1, verbs.ErrUnsupported)
	d := &device{ports: 1, virtual: true, errs: map[string]error{"counters": none, "aer": none, "link": none, "ethtool": none}}
	doc, err := takeSnapshot(t, func() (verbs.Device, error) { return d, nil }, nil)
	require.NoError(t, err)
	require.Empty(t, doc.Missing())
	require.NotContains(t, doc.Ports[0].Parts, "link")
	require.Equal(t, "counters", doc.Calls[5].Part)
	require.Equal(t, none.Error(), doc.Calls[5].None)

	d.errs = map[string]error{"netdev": none} // as a port of InfiniBand
	doc, err = takeSnapshot(t, func() (verbs.Device, error) { return d, nil }, nil)
	require.NoError(t, err)
	require.Empty(t, doc.Missing())
	require.Equal(t, "attributes gids netdev attributes hw_counters counters aer", doc.calls())
}

func TestAfterACallThatHangsNoOtherIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &device{ports: 2, took: map[string]time.Duration{"attributes": time.Hour}}
		doc, err := takeSnapshot(t, func() (verbs.Device, error) { return d, nil }, nil)
		require.ErrorIs(t, err, ErrLate)
		require.Equal(t, "attributes gids netdev gids netdev attributes! attributes! hw_counters! counters! hw_counters! counters! aer "+
			"link! ethtool! link! ethtool!", doc.calls())
		require.Equal(t, []string{
			"attributes of port 1: the device has not answered within 3s",
			"attributes of port 2, hw_counters of port 1, counters of port 1, hw_counters of port 2, counters of port 2, link of port 1, " +
				"ethtool of port 1, link of port 2, ethtool of port 2: not asked: attributes of port 1: the device has not answered within 3s",
		}, doc.Missing())
		require.Contains(t, doc.Parts, "aer", "what asks no device is read")
		time.Sleep(time.Hour) // the call ends
	})
}

// A network device with hanging firmware would hold the RTNL lock, which all network devices share.
func TestTheLockIsNotTakenAfterASlowOrFailedCommand(t *testing.T) {
	timeout := verbs.NewOpError("ibv_query_port", "mlx5_0", 1, unix.ETIMEDOUT)
	for _, tt := range []struct {
		name, driver string
		took         map[string]time.Duration
		errs         map[string]error
		calls, why   string
	}{
		{
			"slow", "mlx5_core", map[string]time.Duration{"attributes": 150 * time.Millisecond}, nil,
			"attributes gids netdev attributes hw_counters counters aer link! ethtool!", "not asked: attributes of port 1 took 150ms",
		},
		{
			"failed", "mlx5_core", nil, map[string]error{"attributes": timeout},
			"attributes gids netdev attributes! hw_counters counters aer link! ethtool!", "not asked: attributes of port 1 failed",
		},
		{
			"no command shows it", "rdma_rxe", nil, nil,
			"attributes gids netdev attributes hw_counters counters aer link! ethtool!", "no command that shows whether the firmware",
		},
		{
			"slow, but no command, and no hardware", "rdma_rxe", map[string]time.Duration{"attributes": 150 * time.Millisecond}, nil,
			"attributes gids netdev attributes hw_counters counters aer link ethtool", "",
		},
		{
			"slow by its counters", "efa", map[string]time.Duration{"hw_counters": 150 * time.Millisecond}, nil,
			"attributes gids netdev attributes hw_counters counters aer link! ethtool!", "not asked: hw_counters of port 1 took 150ms",
		},
		{
			"nothing shows it", "bnxt_re", nil, nil,
			"attributes gids netdev attributes hw_counters! counters! aer link! ethtool!", unprovenDevice,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &device{ports: 1, commands: verbs.DriverCommands(tt.driver), took: tt.took, errs: tt.errs}
			d.virtual = strings.Contains(tt.name, "no hardware")
			doc, err := takeSnapshot(t, func() (verbs.Device, error) { return d, nil }, nil)
			require.NoError(t, err, tt.name)
			require.Equal(t, tt.calls, doc.calls(), tt.name)
			require.Contains(t, strings.Join(doc.Missing(), "\n"), tt.why, tt.name)
			require.Equal(t, tt.why == "", slices.Contains(d.called, "link"), tt.name)
		})
	}
}

func TestOfADeviceThatCannotBeOpenedTheKernelIsAsked(t *testing.T) {
	refused := errors.Join(verbs.ErrUnsupported, errors.New("is its provider library installed?"))
	doc, err := takeSnapshot(t, func() (verbs.Device, error) { return nil, refused }, sysfsOf{})
	require.NoError(t, err)
	require.Equal(t, "attributes! sysfs gids gids", doc.calls())
	require.Contains(t, doc.Missing()[0], "provider library")
	require.JSONEq(t, `{"node_guid": "0200:0000:0000:0001", "fw_ver": "22.39.2048", "numa_node": 1, "events_supported": false, "is_vf": false}`,
		string(doc.Parts["sysfs"]))

	doc, err = takeSnapshot(t, func() (verbs.Device, error) { return nil, verbs.ErrNoDevice }, sysfsOf{gone: true})
	require.NoError(t, err)
	require.Equal(t, "attributes! sysfs!", doc.calls())

	doc, err = takeSnapshot(t, func() (verbs.Device, error) { return nil, verbs.ErrNoDevice }, nil)
	require.NoError(t, err)
	require.Equal(t, "attributes!", doc.calls())
}

func TestAnOpeningThatHangsLosesNotWhatTheKernelKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func() (verbs.Device, error) {
			time.Sleep(time.Hour)
			return &device{}, nil
		}
		doc, err := takeSnapshot(t, hang, sysfsOf{})
		require.ErrorIs(t, err, ErrLate)
		require.Equal(t, "attributes! sysfs gids gids", doc.calls())
		time.Sleep(time.Hour)
	})
}

func TestOfAProcessThatCrashedItIsKnownInWhichCall(t *testing.T) {
	printed := `{"part":"attributes","begun":true}
{"part":"attributes","took_ns":5,"value":{"driver":"mlx5_core"}}
a library's own line
{"part":"gids","port":2,"begun":true}
{"part":"gids","port":2,"took_`
	doc := New("mlx5_0", time.Unix(0, 0), []byte(printed))
	require.Equal(t, []string{"gids of port 2: not answered when the process ended"}, doc.Missing())
	require.Contains(t, doc.Parts, "attributes")
	require.Empty(t, New("mlx5_0", time.Now(), nil).Calls)
}

func FuzzAnyBytesOfAWorkerMakeADocument(f *testing.F) {
	f.Add([]byte(`{"part":"attributes","begun":true}` + "\n" + `{"part":"gids","port":1,"took_ns":5,"value":[1]}` + "\n"))
	f.Fuzz(func(t *testing.T, printed []byte) {
		doc := New("mlx5_0", time.Unix(0, 0), printed)
		_, err := json.Marshal(doc)
		require.NoError(t, err)
		require.LessOrEqual(t, len(doc.Missing()), len(doc.Calls))
	})
}

func TestAnOutputThatFailsIsTheError(t *testing.T) {
	taker := Taker{Open: func() (verbs.Device, error) { return &device{ports: 1}, nil }, Mono: func() int64 { return 0 }, Out: broken{}}
	require.ErrorIs(t, taker.Take(), unix.EPIPE)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, unix.EPIPE }
