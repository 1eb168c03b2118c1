package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// buildInjector builds the event injector.
func buildInjector(ctx context.Context, cacheDir string, k kernel) (string, error) {
	return buildModule(ctx, cacheDir, k, "evinject", map[string][]byte{
		"evinject.c": evinjectSource,
		"Makefile":   []byte("obj-m := evinject.o\n"),
	})
}

// buildExtState builds the module that makes a netdev say why it has no link.
func buildExtState(ctx context.Context, cacheDir string, k kernel) (string, error) {
	return buildModule(ctx, cacheDir, k, "extstate", map[string][]byte{
		"extstate.c": extStateSource,
		"Makefile":   []byte("obj-m := extstate.o\n"),
	})
}

// buildSIW builds the soft iWARP driver, which is not in Debian's kernels.
func buildSIW(ctx context.Context, cacheDir string, k kernel) (string, error) {
	files, err := k.driverFiles(ctx, cacheDir, "siw", "drivers/infiniband/sw/siw")
	if err != nil {
		return "", err
	}
	return buildModule(ctx, cacheDir, k, "siw", files, "CONFIG_RDMA_SIW=m")
}

// buildPVRDMA builds the driver of VMware's paravirtual RDMA device, which is not in Debian's kernels.
func buildPVRDMA(ctx context.Context, cacheDir string, k kernel) (string, error) {
	files, err := k.driverFiles(ctx, cacheDir, "vmw_pvrdma", "drivers/infiniband/hw/vmw_pvrdma")
	if err != nil {
		return "", err
	}
	return buildModule(ctx, cacheDir, k, "vmw_pvrdma", files, "CONFIG_INFINIBAND_VMWARE_PVRDMA=m")
}

// buildPVInject builds the module that stands in for the hypervisor of a paravirtual RDMA device. It needs the driver's
// headers.
func buildPVInject(ctx context.Context, cacheDir string, k kernel) (string, error) {
	files, err := k.driverFiles(ctx, cacheDir, "vmw_pvrdma", "drivers/infiniband/hw/vmw_pvrdma")
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(files, func(name string, _ []byte) bool { return filepath.Ext(name) != ".h" })
	files["pvinject.c"], files["Makefile"] = pvInjectSource, []byte("obj-m := pvinject.o\n")
	return buildModule(ctx, cacheDir, k, "pvinject", files)
}

// driverFiles returns the files of a driver's source, by name.
func (k kernel) driverFiles(ctx context.Context, cacheDir, driver, part string) (map[string][]byte, error) {
	dir, err := k.driverSource(ctx, cacheDir, driver, part)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read source of %s: %w", driver, err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("read source of %s: %w", driver, err)
		}
	}
	return files, nil
}

// buildModule builds a kernel module from its files and returns its path. The name of the directory contains a
// digest of the files, so that an unchanged module is not built again.
func buildModule(ctx context.Context, cacheDir string, k kernel, name string, files map[string][]byte, settings ...string) (string, error) {
	var parts [][]byte
	for _, file := range slices.Sorted(maps.Keys(files)) {
		parts = append(parts, []byte(file), files[file])
	}
	dir := filepath.Join(cacheDir, name+"-"+k.release+"-"+contentDigest(parts...))
	err := publishFile(dir, func(tmp string) error {
		headers, err := k.headers(ctx, cacheDir)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(tmp, 0o755); err != nil {
			return err
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(tmp, file), text, 0o644); err != nil {
				return err
			}
		}
		// The build has no type information for BPF, which would need pahole.
		args := append([]string{"-s", "-C", headers, "M=" + tmp, "CONFIG_DEBUG_INFO_BTF_MODULES="}, settings...)
		_, err = runCommand(ctx, tmp, "make", append(args, "modules")...)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("build module %s for %s: %w", name, k.release, err)
	}
	return filepath.Join(dir, name+".ko"), nil
}
