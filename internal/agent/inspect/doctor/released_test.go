package doctor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleasedDeviceIsNotTouched(t *testing.T) {
	w := &fakeWorker{version: "1.2.3", library: "/usr/lib/libibverbs.so.1"}
	s := host(t, healthy(), w)
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
		{"mlx5_core", "6.1.0-37-amd64", "can be removed while watched, and its driver unloaded: the kernel takes it away from its users"},
		{"efa", "7.3.4", "can be removed while watched: the worker sees the removal coming and lets go; to unload its driver efa is refused (in use) " +
			"while it is watched, unless `rdma-events release` comes first"},
		{"bnxt_en", "6.1.0-37-amd64", "to unload its driver bnxt_en is refused"},
		{"bnxt_en", "6.12.57", "and its driver unloaded"},
		{"a_new_one", "7.3.4", "can be removed while watched: the worker sees the removal coming and lets go"},
	} {
		s := host(t, healthy().with(tree{driver: "-> ../../bus/pci/drivers/" + c.driver, "proc/sys/kernel/osrelease": c.kernel + "\n"}), &fakeWorker{})
		got := Run(t.Context(), s)
		require.Len(t, got.resultsOf("removal"), 1)
		one := got.resultsOf("removal")[0]
		require.Equal(t, OK, one.Status)
		require.Contains(t, one.Text, c.want, c)
		require.Empty(t, one.Fix)
	}
}
