package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fakeKernelLog is a kernel log. Each element is the result of one read.
type fakeKernelLog struct {
	records []any // string or error
	closed  bool
}

func (k *fakeKernelLog) Read(p []byte) (int, error) {
	if len(k.records) == 0 {
		return 0, unix.EAGAIN
	}
	next := k.records[0]
	k.records = k.records[1:]
	if err, ok := next.(error); ok {
		return 0, err
	}
	return copy(p, next.(string)), nil
}

func (k *fakeKernelLog) Close() error { k.closed = true; return nil }

func newKernelOptions(k io.ReadCloser, openErr error, names ...string) KernelOptions {
	return KernelOptions{
		Names: func() []string { return names },
		Open: func() (io.ReadCloser, error) {
			if openErr != nil {
				return nil, openErr
			}
			return k, nil
		},
		Restricted: func() bool { return errors.Is(openErr, unix.EPERM) },
		Clocks:     func() (wall, mono int64) { return moment.UnixNano(), (100 * time.Second).Nanoseconds() },
	}
}

func readKernel(t *testing.T, k *fakeKernelLog, openErr error, names ...string) Result {
	t.Helper()
	made := Collect(t.Context(), []Part{Kernel(newKernelOptions(k, openErr, names...))}, time.Now)
	require.Len(t, made, 1)
	return made[0]
}

func TestTheKernelsLinesAreThoseThatNameADevice(t *testing.T) {
	k := &fakeKernelLog{records: []any{
		"6,1,1000000,-;mlx5_core 0000:3b:00.0: firmware version: 22.39.2048\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n",
		unix.EPIPE, // some were overwritten
		"3,2,2500000,-;infiniband mlx5_0: create QP failed\n",
		"4,3,3000001,-,caller=T1;eth0: Link is Down\n",
		"4,4,3000002,-;eth01: another one\n",
		"4,5,3000003,-;veth0: another one\n",
		"4,6,3000004,-;mlx5_00: another one\n",
		"12,7,3000005,-;pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0\n",
		"4,8,3000006,-;driver of a card\n DEVICE=+pci:0000:3b:00.0\n",
		"4,9,3000007,-;python3 invoked oom-killer: gfp_mask=0xcc0, order=0\n",
		"3,10,3000008,-;INFO: task python3:4711 blocked for more than 120 seconds.\n",
		"no record", "x,1,2;mlx5_0\n", "4,1,x,-;mlx5_0\n",
	}}
	m := readKernel(t, k, nil, "mlx5_0", "0000:3b:00.0", "mlx5_core", "eth0")
	require.NoError(t, m.Missing)
	require.True(t, k.closed)
	require.Equal(t, `2026-11-23T16:33:25.123456Z [     1.000000] info   mlx5_core 0000:3b:00.0: firmware version: 22.39.2048
2026-11-23T16:33:26.623456Z [     2.500000] err    infiniband mlx5_0: create QP failed
2026-11-23T16:33:27.123457Z [     3.000001] warn   eth0: Link is Down
2026-11-23T16:33:27.123461Z [     3.000005] warn   pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0
2026-11-23T16:33:27.123462Z [     3.000006] warn   driver of a card
2026-11-23T16:33:27.123463Z [     3.000007] warn   python3 invoked oom-killer: gfp_mask=0xcc0, order=0
2026-11-23T16:33:27.123464Z [     3.000008] err    INFO: task python3:4711 blocked for more than 120 seconds.
`, string(m.Data.(Text)))
	require.Equal(t, "7 lines that name one of: mlx5_0, 0000:3b:00.0, mlx5_core, eth0; or lack of memory, or a hung task", m.Notes[0])
}

func TestOfTooManyKernelLinesTheNewestAreKept(t *testing.T) {
	k := &fakeKernelLog{}
	const all = 3*maxKernelLines + 17
	for i := range all {
		k.records = append(k.records, fmt.Sprintf("6,%d,%d,-;mlx5_0: line %d\n", i, i, i))
	}
	files, err := newKernelOptions(k, nil, "mlx5_0").makeFile(t.Context()) // without a time limit
	require.NoError(t, err)
	m := files[KernelLog]
	lines := strings.Split(strings.TrimSpace(string(m.Data.(Text))), "\n")
	require.Len(t, lines, maxKernelLines)
	require.True(t, strings.HasSuffix(lines[0], fmt.Sprintf(": line %d", all-maxKernelLines)))
	require.True(t, strings.HasSuffix(lines[len(lines)-1], fmt.Sprintf(": line %d", all-1)))
	require.Contains(t, m.Notes, fmt.Sprintf("%d older lines are left out", all-maxKernelLines))
}

func TestARefusalSaysWhyAndWhichCommandGivesTheLines(t *testing.T) {
	const command = `; instead: sudo dmesg -T | grep -wE 'mlx5_0|0000:3b:00\.0'`
	open := func(errno error) error { return &fs.PathError{Op: "open", Path: "/dev/kmsg", Err: errno} }
	for want, err := range map[string]error{
		"open /dev/kmsg: operation not permitted: kernel.dmesg_restrict is 1, and this user has no CAP_SYSLOG": open(unix.EPERM),
		"open /dev/kmsg: permission denied: this user may not read the kernel's log":                           open(unix.EACCES),
		"open /dev/kmsg: no such file or directory, as in a container: ask the host":                           open(unix.ENOENT),
	} {
		m := readKernel(t, nil, err, "mlx5_0", "0000:3b:00.0")
		require.EqualError(t, m.Missing, want+command)
	}
	m := readKernel(t, &fakeKernelLog{records: []any{unix.EIO}}, nil, "mlx5_0", "0000:3b:00.0")
	require.EqualError(t, m.Missing, "read kernel log: input/output error"+command)
	m = readKernel(t, nil, nil)
	require.ErrorAs(t, m.Missing, new(OmittedError))
}

// A host that is short of CPU time may not get through a long log. The report keeps what it has read.
func TestLinesThatWereReadBeforeAnErrorAreKept(t *testing.T) {
	const instead = "; instead: sudo dmesg -T | grep -wE 'mlx5_0'"
	k := &fakeKernelLog{records: []any{"6,1,1000000,-;mlx5_0: one\n", "6,2,2000000,-;mlx5_0: two\n", unix.EIO}}
	m := readKernel(t, k, nil, "mlx5_0")
	require.NoError(t, m.Missing)
	require.Equal(t, 2, strings.Count(string(m.Data.(Text)), "mlx5_0: "))
	require.Equal(t, []string{"newer lines: read kernel log: input/output error" + instead}, m.Lacks)

	synctest.Test(t, func(t *testing.T) {
		part := Kernel(newKernelOptions(endlessLog{}, nil, "mlx5_0"))
		m := Collect(t.Context(), []Part{part}, time.Now)[0]
		require.NoError(t, m.Missing)
		require.Equal(t, 12, strings.Count(string(m.Data.(Text)), "mlx5_0: "))
		require.Equal(t, []string{"newer lines: read kernel log: not finished within its limit of 10s" + instead}, m.Lacks)
	})
}

// endlessLog is a kernel log without an end. Each read takes 900 ms and returns another line.
type endlessLog struct{}

func (endlessLog) Read(p []byte) (int, error) {
	time.Sleep(900 * time.Millisecond)
	return copy(p, "6,1,1,-;mlx5_0: again\n"), nil
}

func (endlessLog) Close() error { return nil }

// Either the log of this host can be read, or the error tells why not.
func TestTheKernelsOwnLogIsReadToItsEnd(t *testing.T) {
	log, err := OpenKernelLog()
	if err != nil {
		require.True(t, errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist), err)
		return
	}
	defer func() { require.NoError(t, log.Close()) }()
	lines, _, err := readKernelLines(t.Context(), log, matchNames([]string{"Linux", "Command"}), 0)
	require.NoError(t, err)
	for _, line := range lines {
		require.Equal(t, 1, strings.Count(line, "\n"))
	}
}

func FuzzAnyRecordOfTheKernelIsALineOrNone(f *testing.F) {
	f.Add([]byte("6,1,1000000,-;mlx5_core: x\n SUBSYSTEM=pci\n"))
	f.Fuzz(func(t *testing.T, record []byte) {
		if line, ok := formatKernelLine(record, moment.UnixNano()); ok {
			require.Equal(t, 1, strings.Count(line, "\n"))
		}
	})
}
