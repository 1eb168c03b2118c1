//go:build linux && cgo

package native_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
)

// doLoad opens the device, which opens the library.
func doLoad(s *subject) error {
	led, file, err := ledger.New("standin")
	if err != nil {
		return err
	}
	defer led.Close()
	defer file.Close()
	_, err = s.backend("sys", "dev").Open("standin0", led)
	s.check("open", err)
	return nil
}

func requireNoLibrary(t *testing.T, exe, libraries, text string) {
	t.Helper()
	r := carryOutWith(t, order{Kind: "load"}, exe, libraries)
	require.Equal(t, []string{"no library"}, r.Errors["open"].Is)
	require.Contains(t, r.Errors["open"].Text, text)
}

func TestALibraryThatLacksASymbolIsNamedWithIt(t *testing.T) {
	whole, err := os.ReadFile(standInLibrary(t))
	require.NoError(t, err)
	for c := ledger.CallGetDeviceList; c <= ledger.CallCloseDevice; c++ {
		symbol := []byte("\x00" + c.String() + "\x00")
		if !bytes.Contains(whole, symbol) {
			continue // inline in the header, or read from sysfs
		}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			renamed := bytes.Replace(symbol, []byte("ibv"), []byte("xyz"), 1)
			without := bytes.ReplaceAll(whole, symbol, renamed)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "libibverbs.so.1"), without, 0o755))
			exe, err := os.Executable()
			require.NoError(t, err)
			requireNoLibrary(t, exe, dir, "libibverbs.so.1 has no "+c.String())
		})
	}
}

func TestALibraryThatIsNotThereIsSaidToBeMissing(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(exe)
	require.NoError(t, err)
	// This host may have the real library, so the program opens another name.
	other := bytes.ReplaceAll(program, []byte("libibverbs.so.1\x00"), []byte("libibverbs.so.0\x00"))
	require.NotEqual(t, len(program), 0)
	require.False(t, bytes.Equal(program, other))
	dir := t.TempDir()
	exe = filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(exe, other, 0o755))
	requireNoLibrary(t, exe, dir, "libibverbs.so.0: cannot open shared object file")
}

func TestALibraryThatIsBrokenIsSaidToBe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "libibverbs.so.1"), []byte("\x7fELF"), 0o755))
	exe, err := os.Executable()
	require.NoError(t, err)
	requireNoLibrary(t, exe, dir, "file too short")
}
