package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/sys/confine"
)

// buildPrefixed compiles a stand-in like an rdma-core that was built for its own prefix: it reads its configuration below that
// prefix, and finds a library in another prefix by its RUNPATH. buildPrefixed returns the directory for LD_LIBRARY_PATH.
func buildPrefixed(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	lib, other, etc := filepath.Join(root, "rdma/lib"), filepath.Join(root, "other/lib"), filepath.Join(root, "rdma/etc/libibverbs.d")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
	}
	write := func(path, text string) string {
		t.Helper()
		if err := standin.WriteFile(path, text); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(filepath.Join(etc, "standin.driver"), "driver standin\n")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	dependency := write(filepath.Join(other, "dependency.c"), "int dependency(void) { return 1; }\n")
	run("-shared", "-fPIC", "-o", filepath.Join(other, "libdependency.so"), dependency)
	config := write(filepath.Join(root, "config.c"), `#include <dirent.h>
#include <stdlib.h>
int dependency(void);
__attribute__((constructor)) static void read_config(void)
{
	if (!opendir("`+etc+`") || !dependency())
		abort();
}
`)
	sources, err := filepath.Glob("../../internal/conformance/standin/testdata/*.c")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-shared", "-fPIC", "-O1", "-std=gnu11", "-Wl,-soname,libibverbs.so.1", "-o", filepath.Join(lib, "libibverbs.so.1"), config}
	run(append(append(args, sources...), "-L"+other, "-ldependency", "-Wl,--enable-new-dtags,-rpath,"+other, "-lpthread")...)
	return lib
}

func TestALibraryOfAnotherPrefixIsLoadedWhole(t *testing.T) {
	if confine.Landlock() == 0 {
		t.Fatal("this kernel has no Landlock: boot it with landlock in lsm=")
	}
	w := newWorld(t)
	w.libraries = buildPrefixed(t)
	w.start()
	w.awaitProbing(healthy...)
}
