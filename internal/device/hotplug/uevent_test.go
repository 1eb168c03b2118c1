package hotplug

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/netlink"
)

func joinFields(fields []string) []byte { return []byte(strings.Join(fields, "\x00") + "\x00") }

func TestParseUeventReadsMessagesOfTheKernel(t *testing.T) {
	for _, row := range []struct {
		name    string
		message []byte
		want    uevent
	}{
		{"a node", joinFields(nodeEvent("add", "uverbs0")), uevent{
			action: "add", path: "/devices/virtual/infiniband_verbs/uverbs0",
			subsystem: "infiniband_verbs", node: "infiniband/uverbs0",
		}},
		{"a device", joinFields(deviceEvent("move", "rxe1")), uevent{
			action: "move", path: "/devices/virtual/infiniband/rxe1", subsystem: "infiniband",
		}},
		{"one that a user requested", joinFields(append(nodeEvent("remove", "uverbs0"), "SYNTH_UUID=0")), uevent{
			action: "remove", path: "/devices/virtual/infiniband_verbs/uverbs0",
			subsystem: "infiniband_verbs", node: "infiniband/uverbs0", synthetic: true,
		}},
		{"a value with an equals sign", joinFields([]string{"add@/x", "ACTION=add", "DEVPATH=/x=y", "SUBSYSTEM=s"}), uevent{
			action: "add", path: "/x=y", subsystem: "s",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, ok := parseUevent(row.message)
			require.True(t, ok)
			require.Equal(t, row.want, got)
		})
	}
}

func TestParseUeventRefusesWhatTheKernelDoesNotSend(t *testing.T) {
	for name, message := range map[string]string{
		"nothing":              "",
		"a head alone":         "add@/x",
		"a message of udev":    "libudev\x00\xfe\xed\xca\xfe(\x00\x00\x00ACTION=add\x00",
		"no path":              "add@/x\x00ACTION=add\x00SUBSYSTEM=s\x00",
		"no action":            "add@/x\x00DEVPATH=/x\x00SUBSYSTEM=s\x00",
		"a device of no class": "add@/module/ib_core\x00ACTION=add\x00DEVPATH=/module/ib_core\x00",
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := parseUevent([]byte(message))
			require.False(t, ok)
		})
	}
}

func TestOnlyTheKernelsRemovalOfTheNodeIsARemoval(t *testing.T) {
	for _, row := range []struct {
		name   string
		fields []string
		want   bool
	}{
		{"the node", nodeEvent("remove", "uverbs1"), true},
		{"the node without a name in /dev", append(nodeEvent("remove", "uverbs1"), "DEVNAME="), true},
		{"another node", nodeEvent("remove", "uverbs11"), false},
		{"another node of that directory name", append(nodeEvent("remove", "uverbs1"), "DEVNAME=infiniband/uverbs2"), false},
		{"a change of the node", nodeEvent("change", "uverbs1"), false},
		{"its appearance", nodeEvent("add", "uverbs1"), false},
		{"the device class, which comes too late", deviceEvent("remove", "uverbs1"), false},
		{"a request of udevadm", append(nodeEvent("remove", "uverbs1"), "SYNTH_UUID=0"), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			u, ok := parseUevent(joinFields(row.fields))
			require.True(t, ok)
			require.Equal(t, row.want, u.removesNode("uverbs1"))
		})
	}
}

func TestReceiveEndsWithItsContextAndClosesTheSource(t *testing.T) {
	source := newUevents()
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan *uevent, 3)
	done := make(chan error)
	go func() { done <- receiveUevents(ctx, source, func(u *uevent) { seen <- u }) }()
	source.send(nodeEvent("add", "uverbs0")...)
	source.send("libudev")
	source.fail(netlink.ErrOverrun)
	require.Equal(t, "add", (<-seen).action)
	require.Nil(t, <-seen)
	cancel()
	require.NoError(t, <-done)
	require.Empty(t, seen)
	<-source.closed
}

func TestReceiveReturnsWhatEndedTheSubscription(t *testing.T) {
	source := newUevents()
	done := make(chan error)
	go func() { done <- receiveUevents(t.Context(), source, func(*uevent) {}) }()
	source.fail(errRefused)
	require.ErrorIs(t, <-done, errRefused)
	<-source.closed
}

func FuzzParseUevent(f *testing.F) {
	f.Add(joinFields(nodeEvent("remove", "uverbs0")))
	f.Add(joinFields(deviceEvent("move", "rxe1")))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfe"))
	f.Add([]byte("add@/\x00ACTION\x00=\x00DEVPATH=\x00\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		u, ok := parseUevent(message)
		if !ok {
			require.False(t, u.removesNode("uverbs0") && u.action == "")
			return
		}
		require.NotEmpty(t, u.action)
		require.NotEmpty(t, u.subsystem)
		require.NotContains(t, u.action+u.path+u.subsystem+u.node, "\x00")
		if u.removesNode("uverbs0") {
			require.True(t, u.concernsDevices())
			require.Contains(t, string(message), "ACTION=remove\x00")
		}
	})
}
