package sysfs_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

func always() bool { return true }

const nic = "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/"

// cardTree returns the sysfs of an adapter with counters of all kinds and a network device.
func cardTree() tree {
	port := nic + "infiniband/mlx5_0/ports/1/"
	return tree{
		"bus/pci/drivers/mlx5_core/module":                              "-> ../../../../module/mlx5_core",
		"class/infiniband/mlx5_0":                                       "-> ../../" + nic + "infiniband/mlx5_0",
		nic + "driver":                                                  "-> ../../../../bus/pci/drivers/mlx5_core",
		nic + "aer_dev_correctable":                                     "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n",
		nic + "aer_dev_nonfatal":                                        "Undefined 0\nCmpltTO 1\nTOTAL_ERR_NONFATAL 1\n",
		nic + "aer_dev_fatal":                                           makeUnreadable,
		nic + "infiniband/mlx5_0/device":                                "-> ../../../0000:3b:00.0",
		port + "hw_counters/lifespan":                                   "10\n",
		port + "hw_counters/out_of_buffer":                              "48213\n",
		port + "hw_counters/roce_slow":                                  "18446744073709551615\n",
		port + "counters/symbol_error":                                  "17\n",
		port + "counters/VL15_dropped":                                  "N/A (no PMA)\n",
		port + "counters/port_xmit_wait":                                makeUnreadable,
		port + "gid_attrs/ndevs/0":                                      "eth0\n",
		"class/net/eth0":                                                "-> ../../" + nic + "net/eth0",
		nic + "net/eth0/device":                                         "-> ../../../0000:3b:00.0",
		nic + "net/eth0/flags":                                          "0x1003\n",
		nic + "net/eth0/operstate":                                      "down\n",
		nic + "net/eth0/carrier_changes":                                "5\n",
		"devices/virtual/net/bond0/flags":                               "0x1402\n",
		"devices/virtual/net/bond0/operstate":                           "down\n",
		"class/net/bond0":                                               "-> ../../devices/virtual/net/bond0",
		"class/infiniband/soft0":                                        "-> ../../devices/virtual/infiniband/soft0",
		"devices/virtual/infiniband/soft0/x":                            "",
		"devices/virtual/infiniband/soft0/ports/1/hw_counters/lifespan": "10\n",
	}
}

func TestCountersOfAPortAndOfItsPCIFunction(t *testing.T) {
	s := cardTree().mount(t)
	got, err := s.ReadCounters("mlx5_0", 1, verbs.CountersHardware, verbs.RefusalRow, always)
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"out_of_buffer": 48213, "roce_slow": 1<<64 - 1}, got)
	got, err = s.ReadAER("mlx5_0")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{
		"correctable RxErr": 3, "correctable BadTLP": 0, "nonfatal Undefined": 0, "nonfatal CmpltTO": 1,
	}, got)
}

func TestWithoutCountersOfASourceItIsUnsupported(t *testing.T) {
	s := cardTree().mount(t)
	for _, from := range []verbs.CounterSource{verbs.CountersHardware, verbs.CountersPort} {
		_, err := s.ReadCounters("soft0", 1, from, verbs.RefusalRow, always)
		require.ErrorIs(t, err, verbs.ErrUnsupported, from)
	}
	_, err := s.ReadAER("soft0")
	require.ErrorIs(t, err, verbs.ErrUnsupported)
}

// If a device does not answer, each of its counters would wait as long as the first.
func TestReadingCountersEndsAtTheFirstThatFails(t *testing.T) {
	s := cardTree().mount(t)
	got, err := s.ReadCounters("mlx5_0", 1, verbs.CountersPort, verbs.RefusalRow, always)
	require.ErrorContains(t, err, "read counter: read ")
	require.Empty(t, got, "port_xmit_wait comes before symbol_error, VL15_dropped is no number")
}

func TestReadingCountersEndsWhenItTakesTooLong(t *testing.T) {
	s := cardTree().mount(t)
	calls := 0
	got, err := s.ReadCounters("mlx5_0", 1, verbs.CountersHardware, verbs.RefusalRow, func() bool {
		calls++
		return calls == 1
	})
	require.ErrorIs(t, err, sysfs.ErrStopped)
	require.Equal(t, map[string]uint64{"out_of_buffer": 48213}, got, "what was read is kept")
}

func TestANetworkDeviceIsAsTheKernelShowsIt(t *testing.T) {
	s := cardTree().mount(t)
	require.Equal(t, "eth0", s.PortNetDev("mlx5_0", 1))
	require.Empty(t, s.PortNetDev("soft0", 1))
	up, err := s.NetDev("eth0")
	require.NoError(t, err)
	require.Equal(t, verbs.NetDev{
		Name: "eth0", AdminUp: true, HasCarrier: true, CarrierChanges: 5, HasCarrierChanges: true,
	}, up)
	down, err := s.NetDev("bond0")
	require.NoError(t, err)
	require.Equal(t, verbs.NetDev{Name: "bond0", Virtual: true}, down, "a device that is down has no carrier to read")
	for _, name := range []string{"", "eth7"} {
		_, err := s.NetDev(name)
		require.ErrorIs(t, err, verbs.ErrUnsupported, name)
	}
}

// A file that can be opened but not read answers EINVAL: it has no read operation.
func TestRefusedCountersAreNotAllRead(t *testing.T) {
	const refused = "/proc/self/clear_refs"
	if _, err := os.ReadFile(refused); !errors.Is(err, unix.EINVAL) {
		t.Skipf("reading %s is not refused with EINVAL: %v", refused, err)
	}
	root := t.TempDir()
	dir := filepath.Join(root, "class/infiniband/mlx5_0/ports/1/counters")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i := range 20 {
		require.NoError(t, os.Symlink(refused, filepath.Join(dir, fmt.Sprintf("counter%02d", i))))
	}
	read := 0
	_, err := sysfs.New(root).ReadCounters("mlx5_0", 1, verbs.CountersPort, verbs.RefusalRow, func() bool { read++; return true })
	require.ErrorIs(t, err, verbs.ErrUnsupported)
	require.ErrorIs(t, err, unix.EINVAL)
	require.Equal(t, verbs.RefusalRow, read)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("7\n"), 0o600))
	counters, err := sysfs.New(root).ReadCounters("mlx5_0", 1, verbs.CountersPort, 1, always)
	require.NoError(t, err, "some are refused")
	require.Equal(t, map[string]uint64{"a": 7}, counters)
}

func TestTemperatureIsThatOfThePCIFunction(t *testing.T) {
	const hwmon = nic + "hwmon/hwmon4/"
	for name, c := range map[string]struct {
		files tree
		want  map[string]uint64
	}{
		"a sensor":              {tree{hwmon + "temp1_input": "61500\n", hwmon + "temp2_input": "40000\n"}, map[string]uint64{verbs.Temperature: 61500}},
		"a sensor below zero":   {tree{hwmon + "temp1_input": "-2000\n"}, nil},
		"no sensor":             {nil, nil},
		"one that is not there": {tree{hwmon + "name": "mlx5\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := cardTree()
			maps.Copy(files, c.files)
			got, err := files.mount(t).ReadSensors("mlx5_0")
			require.Equal(t, c.want, got)
			if c.want == nil {
				require.ErrorIs(t, err, verbs.ErrUnsupported)
			}
		})
	}
}
