package native

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLibrariesAreLookedForWhereTheLoaderDoes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ld.so.conf":     "include conf.d/*.conf\n# /not/this\n/opt/mellanox/lib # nor this\nrelative\ninclude /nowhere/*\n",
		"conf.d/a.conf":  "/opt/a/lib\n\n",
		"conf.d/b.conf":  "include ../c.conf\n",
		"c.conf":         "/opt/c/lib\n",
		"conf.d/no.text": "/opt/no\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(dir+"/circle", []byte("include circle\n"), 0o644))
	t.Setenv("LD_LIBRARY_PATH", "/mine::here:/yours")
	built := []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}
	require.Equal(t, append([]string{"/mine", "/yours", "/opt/a/lib", "/opt/c/lib", "/opt/mellanox/lib"}, built...),
		loaderDirs(filepath.Join(dir, "ld.so.conf")))
	require.Equal(t, append([]string{"/mine", "/yours"}, built...), loaderDirs(dir+"/missing"))
	require.Equal(t, append([]string{"/mine", "/yours"}, built...), loaderDirs(dir+"/circle"))
}
