package ebpf

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/applications/trace"
)

func hostOf(t *testing.T, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return hostAt(root)
}

func TestAHostSaysWhyNothingCanBeAttached(t *testing.T) {
	loaded := "sys/module/ib_uverbs/refcnt"
	require.ErrorIs(t, hostOf(t, nil).checkSupport(), trace.ErrNoDevice)
	require.NoError(t, hostOf(t, map[string]string{loaded: "0"}).checkSupport())
	lockdown := "sys/kernel/security/lockdown"
	require.NoError(t, hostOf(t, map[string]string{loaded: "0", lockdown: "none [integrity] confidentiality\n"}).checkSupport())
	require.ErrorIs(t, hostOf(t, map[string]string{loaded: "0", lockdown: "none integrity [confidentiality]\n"}).checkSupport(), trace.ErrUnsupported)
}

func TestAMissingPrivilegeIsNamed(t *testing.T) {
	refused := fmt.Errorf("load the programs: %w", unix.EPERM)
	for paranoid, want := range map[string]string{"2\n": "it takes CAP_BPF and CAP_PERFMON (", "3\n": "CAP_SYS_ADMIN", "-1\n": "CAP_BPF and CAP_PERFMON ("} {
		err := hostOf(t, map[string]string{"proc/sys/kernel/perf_event_paranoid": paranoid}).explainError(refused)
		require.ErrorIs(t, err, trace.ErrPermission)
		require.ErrorContains(t, err, want, paranoid)
		require.NotContains(t, err.Error(), "\n")
	}
	h := hostOf(t, nil)
	full := fmt.Errorf("load the programs: %w", unix.ENOMEM)
	require.Equal(t, full, h.explainError(full))
	verifier := fmt.Errorf("load the programs: %w", &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"0: (b7) r0 = 1", "invalid access"}})
	err := h.explainError(verifier)
	require.ErrorIs(t, err, trace.ErrUnsupported)
	require.NotErrorIs(t, err, trace.ErrPermission)
	require.NotContains(t, err.Error(), "\n")
}

func TestWhatIsInheritedIsReadAsItWasWritten(t *testing.T) {
	_, err := Adopt("no text of Inherit")
	require.ErrorContains(t, err, "read what is inherited")
	_, err = Adopt(`{"maps":{}}`)
	require.ErrorContains(t, err, "descriptor 0 is not one of Inherit")
}
