//go:build linux && cgo

package native

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/nldev"
	"rdma_events/internal/device/verbs"
)

// explainUnlisted returns why libibverbs does not open a device whose node could be opened just now. It
// lists the devices again, since the node may have appeared only after the first list. The error is
// ErrNoProvider only if no temporary cause can explain it, such as a library that is being installed, or
// a library that could not open its files for lack of descriptors.
func (b backend) explainUnlisted(name string, led *ledger.Ledger, node string) error {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var has C.int
	listed := int(C.native_listed((*C.struct_ledger)(led.Base()), cname, &has))
	if listed >= 0 && has == 0 {
		var want string
		callSysfs(led.SetControlCall, 0, func() { want = verbs.ProviderName(b.sysfs.Device(name).Driver) })
		dir := filepath.Join(filepath.Dir(C.GoString(C.native_library())), "libibverbs")
		if lacksProvider(dir, want) && !isUsed(nldev.QueryUse(name)) {
			return fmt.Errorf("%w: %s has none for %s, and nobody uses the device", verbs.ErrNoProvider, dir, want)
		}
	}
	return fmt.Errorf("%w: libibverbs lists %d devices without it; is its provider library installed, and %s there?",
		verbs.ErrUnsupported, max(listed, 0), node)
}

// lacksProvider reports whether a directory has provider libraries, but none with this name, whatever its
// ABI. It returns false for an empty directory, where the package with the providers is not installed yet.
// It also returns false if the provider exists and the library refuses it, which is a fault.
func lacksProvider(dir, name string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	var providers []string
	for _, e := range entries {
		// load_driver in libibverbs/dynamic_driver.c of rdma-core: lib<name>-rdmav<ABI>.so
		if provider, _, ok := strings.Cut(strings.TrimPrefix(e.Name(), "lib"), "-rdmav"); ok {
			providers = append(providers, provider)
		}
	}
	return name != "" && len(providers) > 0 && !slices.Contains(providers, name)
}

// isUsed reports whether a process, or a kernel module other than the RDMA core, has protection
// domains on a device. It returns true if the answer cannot be read now for a shortage of resources,
// and false if the kernel does not provide it.
func isUsed(use nldev.Use, err error) bool {
	if err != nil {
		return verbs.Shortage(err) != ""
	}
	return slices.ContainsFunc(use.Owners, func(o nldev.Owner) bool { return o.Kernel != "ib_core" })
}
