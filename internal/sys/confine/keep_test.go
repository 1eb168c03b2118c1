package confine

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ownProgram copies the test program to a file that any user may execute. The copy has the file capabilities caps (0: none), and
// is removed at the end of the test.
func ownProgram(t *testing.T, caps uint64) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "confine") //nolint:usetesting // other users may not enter the directory of the test
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "program")
	from, err := os.Open(self)
	require.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(to, from)
	require.NoError(t, err)
	require.NoError(t, to.Close())
	if caps != 0 {
		// struct vfs_cap_data, with VFS_CAP_FLAGS_EFFECTIVE
		data := binary.LittleEndian.AppendUint32(nil, 0x0200_0001)
		for _, word := range []uint32{uint32(caps), 0, uint32(caps >> 32), 0} {
			data = binary.LittleEndian.AppendUint32(data, word)
		}
		require.NoError(t, unix.Setxattr(path, "security.capability", data, 0))
	}
	return path
}

const (
	given = 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON
	kept  = 1 << unix.CAP_BPF
)

func TestWhatIsKeptAndNothingElseOutlivesTheSecondStart(t *testing.T) {
	requireRoot(t)
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	for name, row := range map[string]struct {
		file uint64
		attr syscall.SysProcAttr
	}{
		"root":                                {},
		"root, of a file with capabilities":   {file: given},
		"a user, of a file with capabilities": {file: given, attr: syscall.SysProcAttr{Credential: nobody}},
		"a user, of a file with one":          {file: kept, attr: syscall.SysProcAttr{Credential: nobody}},
		"a user who was given capabilities": {attr: syscall.SysProcAttr{
			Credential: nobody, AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			program := ownProgram(t, row.file)
			for _, keep := range [][]uintptr{nil, {unix.CAP_BPF}} {
				var set uint64
				for _, c := range keep {
					set |= 1 << c
				}
				attr := row.attr
				h := startHelperAs(t, program, &attr, order{Confine: true, Needs: Needs{Keep: keep, Seal: &Seal{}}})
				requireOnEachThread(t, h, fmt.Sprintf("CapPrm:\t%016x\n", set), fmt.Sprintf("CapEff:\t%016x\n", set),
					"NoNewPrivs:\t1\n", "Seccomp:\t2\n")
			}
		})
	}
}

func TestWhatAProcessDoesNotHaveItCannotKeep(t *testing.T) {
	requireRoot(t)
	text, err := json.Marshal(order{Confine: true, Needs: Needs{Keep: []uintptr{unix.CAP_BPF}}})
	require.NoError(t, err)
	cmd := exec.Command(ownProgram(t, 0))
	cmd.Env = append(os.Environ(), orderKey+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "drop capabilities: keep [39]: operation not permitted\n", string(out))
}

func TestASecondStartWithOtherCapabilitiesThanThoseToKeepIsRefused(t *testing.T) {
	for _, keep := range [][]uintptr{nil, {unix.CAP_BPF}, {unix.CAP_BPF, unix.CAP_PERFMON}} {
		o := order{Confine: true, Needs: Needs{Keep: keep}}
		if os.Geteuid() != 0 && len(keep) == 0 {
			continue // without root the process has no capabilities, and keep is empty too
		}
		text, err := json.Marshal(o)
		require.NoError(t, err)
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), orderKey+"="+string(text), marker+"=1")
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, fmt.Sprintf("not confined: the process has other capabilities than %v\n", keep), string(out))
	}
}
