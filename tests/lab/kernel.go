package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kernel is one Debian kernel package, unpacked.
type kernel struct {
	release string
	root    string
}

func (k kernel) image() string   { return filepath.Join(k.root, "boot", "vmlinuz-"+k.release) }
func (k kernel) modules() string { return filepath.Join(k.root, "lib", "modules") }

func fetchKernel(ctx context.Context, cacheDir, pkg string) (kernel, error) {
	image, err := resolveKernel(ctx, pkg)
	if err != nil {
		return kernel{}, err
	}
	release := strings.TrimSuffix(strings.TrimPrefix(image, "linux-image-"), "-unsigned")
	k := kernel{release: release, root: filepath.Join(cacheDir, "kernel-"+release)}
	err = publish(k.root, func(tmp string) error { return unpackKernel(ctx, image, release, tmp) })
	if err != nil {
		return kernel{}, fmt.Errorf("fetch kernel %s: %w", image, err)
	}
	return k, nil
}

// resolveKernel follows a meta package to the package that holds a kernel.
func resolveKernel(ctx context.Context, pkg string) (string, error) {
	if rest, ok := strings.CutPrefix(pkg, "linux-image-"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return pkg, nil
	}
	out, err := command(ctx, "", "apt-cache", "depends", pkg)
	if err != nil {
		return "", fmt.Errorf("look up kernel package: %w", err)
	}
	for line := range strings.Lines(out) {
		dep, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		if ok && strings.HasPrefix(dep, "linux-image-") {
			return dep, nil
		}
	}
	return "", fmt.Errorf("look up kernel package: %s depends on no kernel; run apt-get update", pkg)
}

// unpackKernel downloads and unpacks a package without installing it: the host neither boots this kernel
// nor wants an entry for it in its boot loader.
func unpackKernel(ctx context.Context, image, release, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if _, err := command(ctx, dir, "apt-get", "download", image); err != nil {
		return fmt.Errorf("%w (with old package lists this helps: apt-get update)", err)
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) != 1 {
		return errors.Join(fmt.Errorf("find downloaded package: got %d files", len(debs)), err)
	}
	if _, err := command(ctx, dir, "dpkg", "-x", debs[0], dir); err != nil {
		return err
	}
	if err := os.Remove(debs[0]); err != nil {
		return err
	}
	_, err = command(ctx, dir, "depmod", "-b", dir, release)
	return err
}
