package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// buildLibrary builds a library with a compiled-in string and with a RUNPATH.
func buildLibrary(t *testing.T, path, text, runpath string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	source := filepath.Join(t.TempDir(), "library.c")
	require.NoError(t, os.WriteFile(source, []byte("const char *text(void) { return \""+text+"\"; }\n"), 0o644))
	args := []string{"-shared", "-fPIC", "-o", path, source, "-Wl,--enable-new-dtags,-rpath," + runpath}
	out, err := exec.Command("cc", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.Chmod(path, 0o755))
}

func TestALibraryNamesItsOwnDirectories(t *testing.T) {
	root := t.TempDir()
	lib, providers := filepath.Join(root, "lib"), filepath.Join(root, "lib64/libibverbs")
	library := filepath.Join(lib, "libibverbs.so.1")
	buildLibrary(t, library, "/opt/rdma/etc/libibverbs.d", "/opt/other/lib:$ORIGIN/../lib64")
	require.Equal(t, []string{"/opt/other/lib", "/opt/rdma/etc/libibverbs.d", filepath.Join(root, "lib64")}, libraryDirs([]string{lib}))

	buildLibrary(t, library, providers+"/lib%s-rdmav62.so", "/etc:/home/user:relative/lib")
	buildLibrary(t, filepath.Join(providers, "libmlx5-rdmav62.so"), "", "/opt/x86_64-linux-gnu")
	require.Equal(t, []string{"/opt/x86_64-linux-gnu", providers}, libraryDirs([]string{lib}), "no other directories than of libraries")

	require.NoError(t, os.Chmod(library, 0o775))
	require.Empty(t, libraryDirs([]string{lib}), "a group may have written it")
	require.NoError(t, os.WriteFile(library, []byte("no library"), 0o644))
	require.NoError(t, os.Chmod(library, 0o644))
	require.Empty(t, libraryDirs([]string{lib, filepath.Join(root, "missing"), "/usr/lib", "/lib/x86_64-linux-gnu"}))
}
