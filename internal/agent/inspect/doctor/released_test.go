package doctor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleasedDeviceIsNotTouched(t *testing.T) {
	w := &fakeWorker{version: "1.2.3", library: "/usr/lib/libibverbs.so.1"}
	s := newHost(t, healthyTree(), w)
	s.Released = func(device string) string { return map[string]string{"mlx5_0": "released until 12:00"}[device] }
	s.OpenNode = func(string) error { return errors.New("nothing may open the node") }
	r := Run(t.Context(), s)
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	require.Empty(t, w.tried)
	require.Empty(t, w.asked)
	require.Equal(t, []Result{{Check: "released", Subject: "mlx5_0", Status: Skipped,
		Text: "released until 12:00: it is not opened; `rdma-events resume` ends that"}}, r.resultsOf("released"))
	for _, one := range r.Results {
		require.Empty(t, one.Fix)
		require.True(t, one.Check == "released" || one.Subject != "mlx5_0", "%+v", one)
	}
}

func TestRemovalSaysWhetherTheDriverUnloads(t *testing.T) {
	const driver = "sys/devices/0000:3b:00.0/driver"
	for _, c := range []struct{ driver, kernel, want string }{
		{"mlx5_core", "6.1.0-37-amd64",
			"can be removed while it is watched, and its driver can be unloaded: the kernel takes the device away from the programs that use it"},
		{"efa", "7.3.4",
			"can be removed while it is watched: the worker notices the removal in time and closes the device; its driver efa cannot be unloaded (in use) " +
				"while it is watched: run `rdma-events release` first"},
		{"bnxt_en", "6.1.0-37-amd64", "its driver bnxt_en cannot be unloaded"},
		{"bnxt_en", "6.12.57", "and its driver can be unloaded"},
		{"a_new_one", "7.3.4", "can be removed while it is watched: the worker notices the removal in time and closes the device"},
	} {
		s := newHost(t, healthyTree().with(tree{driver: "-> ../../bus/pci/drivers/" + c.driver, "proc/sys/kernel/osrelease": c.kernel + "\n"}), &fakeWorker{})
		got := Run(t.Context(), s)
		require.Len(t, got.resultsOf("removal"), 1)
		one := got.resultsOf("removal")[0]
		require.Equal(t, OK, one.Status)
		require.Contains(t, one.Text, c.want, c)
		require.Empty(t, one.Fix)
	}
}
