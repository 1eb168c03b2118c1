package report

import (
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata")

// fullReport returns a report for which the manifest has every kind of line.
func fullReport() (Header, []Result) {
	h := Header{
		Version: "v1.2.3", Host: "node17", Began: moment, Took: 13_240 * time.Millisecond, Zone: "CET (UTC+01:00)",
		Asked: []string{"-since", "24h", "-device", "mlx5_0"},
	}
	at := func(s int) time.Time { return moment.Add(time.Duration(s) * time.Second) }
	const held = "run /usr/bin/rdma-events-worker -evidence: no answer within 10s, and the killed process has not ended: the kernel holds " +
		"process 4711, which is left behind"
	return h, []Result{
		{Description: Description{TimelineText, "what was recorded, for people"}, MadeAt: at(10), File: File{
			Data: Text("09:12\n"), Notes: []string{"12 records"}, Lacks: []string{"0000000041.seg: 17 bytes skipped in 1 places: they are damaged"},
		}},
		{Description: Description{TimelineJSONL, "the same"}, MadeAt: at(10), File: File{Data: Text("{}\n")}},
		{Description: Description{DoctorText, "what rdma-events doctor says"}, MadeAt: at(11), Missing: errLeftBehind},
		{Description: DescribeDevice("mlx5_0"), MadeAt: at(0), File: File{
			Data: Text("{}\n"), Lacks: []string{"attributes of port 1: the device has not answered within 3s", held},
		}},
		{Description: Description{"devices", "the others"}, Missing: OmittedError("mlx5_1, mlx5_2: the configuration does not watch them")},
		{Description: Description{HostJSON, "kernel, distribution"}, MadeAt: at(10), File: File{Data: Text("{}\n")}},
		{Description: Description{ConfigTOML, "the configuration"}, MadeAt: at(10), File: File{
			Data: Text(""), Removed: []string{"inputs.rdma_events[0].token", "inputs.rdma_events[0].urls[1]"},
		}},
		{Description: Description{KernelLog, "the kernel's lines"}, Missing: &AlternativeError{
			errors.New("open /dev/kmsg:\noperation not permitted"), "sudo dmesg -T | grep -wE 'mlx5_0'",
		}},
	}
}

func requireGolden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "make it with -update")
	require.Equal(t, string(want), text)
}

func TestTheManifestSaysWhatThereIsWhatIsMissingAndWhy(t *testing.T) {
	h, made := fullReport()
	requireGolden(t, "testdata/MANIFEST.txt", h.Text(made))
	h.Simulated, h.Asked = true, nil
	requireGolden(t, "testdata/MANIFEST-whole.txt", h.Text(made[1:2]))
}

func TestWhatIsMissingIsALineEachAndWhatWasLeftOutIsNot(t *testing.T) {
	_, made := fullReport()
	var names []string
	for i := range made {
		if len(made[i].missingLines()) > 0 {
			names = append(names, made[i].Name)
		}
	}
	require.Equal(t, []string{TimelineText, DoctorText, "devices/mlx5_0.json", KernelLog}, names)
	all := MissingLines(made)
	require.Len(t, all, 5)
	require.Equal(t, "kernel.log: open /dev/kmsg: operation not permitted; instead: sudo dmesg -T | grep -wE 'mlx5_0'", all[4])
}
