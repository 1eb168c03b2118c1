package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// kernel is one Debian kernel package, unpacked.
type kernel struct {
	release string
	root    string
	from    archive
}

func (k kernel) image() string   { return filepath.Join(k.root, "boot", "vmlinuz-"+k.release) }
func (k kernel) modules() string { return filepath.Join(k.root, "lib", "modules") }

// parts matches the packages of a kernel besides linux-image, since Debian split the kernel package.
var parts = regexp.MustCompile(`^linux-(base|binary|modules)-\d`)

// fetchKernel fetches and unpacks a kernel. pkg is the name of a package, which may be followed by a slash and
// a suite.
func fetchKernel(ctx context.Context, cacheDir, pkg string) (kernel, error) {
	pkg, suite, _ := strings.Cut(pkg, "/")
	from, err := openArchive(ctx, cacheDir, suite)
	if err != nil {
		return kernel{}, err
	}
	image, err := from.resolveKernel(ctx, pkg)
	if err != nil {
		return kernel{}, err
	}
	release := strings.TrimSuffix(strings.TrimPrefix(image, "linux-image-"), "-unsigned")
	k := kernel{release: release, root: filepath.Join(cacheDir, "kernel-"+release), from: from}
	err = publishFile(k.root, func(tmp string) error { return unpackKernel(ctx, from, image, release, tmp) })
	if err != nil {
		return kernel{}, fmt.Errorf("fetch kernel %s: %w", image, err)
	}
	return k, nil
}

// resolveKernel returns the package with a kernel that a meta package depends on, or pkg if it has a kernel.
func (a archive) resolveKernel(ctx context.Context, pkg string) (string, error) {
	if rest, ok := strings.CutPrefix(pkg, "linux-image-"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		return pkg, nil
	}
	deps, err := a.depends(ctx, pkg)
	if err != nil {
		return "", err
	}
	for _, dep := range deps {
		if strings.HasPrefix(dep, "linux-image-") {
			return dep, nil
		}
	}
	return "", fmt.Errorf("look up kernel package: %s depends on no kernel; run apt-get update", pkg)
}

// unpackKernel unpacks a kernel without installing it: the host does not boot it and must not have an entry for
// it in its boot loader.
func unpackKernel(ctx context.Context, from archive, image, release, dir string) error {
	deps, err := from.depends(ctx, image)
	if err != nil {
		return err
	}
	pkgs := []string{image}
	for _, dep := range deps {
		if parts.MatchString(dep) {
			pkgs = append(pkgs, dep)
		}
	}
	if err := from.unpack(ctx, dir, pkgs...); err != nil {
		return err
	}
	if len(pkgs) > 1 {
		if err := placeParts(dir, release); err != nil {
			return err
		}
	}
	_, err = runCommand(ctx, dir, "depmod", "-b", dir, release)
	return err
}

// placeParts links the files of a split kernel package to their paths in one that is not split.
func placeParts(dir, release string) error {
	if err := os.Symlink("usr/lib", filepath.Join(dir, "lib")); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "boot"), 0o755); err != nil {
		return err
	}
	return os.Symlink(filepath.Join("../lib/modules", release, "vmlinuz"), filepath.Join(dir, "boot", "vmlinuz-"+release))
}

// headers returns the directory in which to build modules for k: the installed one, or one unpacked into the
// cache, because the headers of a kernel from another suite than the host's are not installed.
func (k kernel) headers(ctx context.Context, cacheDir string) (string, error) {
	name := "linux-headers-" + k.release
	installed := filepath.Join("/usr/src", name)
	if _, err := os.Stat(filepath.Join(installed, "Makefile")); err == nil {
		return installed, nil
	}
	if k.from.options == nil {
		return "", fmt.Errorf("find %s: not installed; run scripts/packages.sh lab", installed)
	}
	root := filepath.Join(cacheDir, "headers-"+k.release)
	err := publishFile(root, func(tmp string) error { return unpackHeaders(ctx, k.from, name, tmp) })
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", name, err)
	}
	return filepath.Join(root, "usr", "src", name), nil
}

func unpackHeaders(ctx context.Context, from archive, name, dir string) error {
	deps, err := from.depends(ctx, name)
	if err != nil {
		return err
	}
	pkgs := []string{name}
	for _, dep := range deps {
		if strings.HasPrefix(dep, "linux-headers-") || strings.HasPrefix(dep, "linux-kbuild-") {
			pkgs = append(pkgs, dep)
		}
	}
	if err := from.unpack(ctx, dir, pkgs...); err != nil {
		return err
	}
	// The Makefile only includes the Makefile of the common headers, by an absolute path.
	makefile := filepath.Join(dir, "usr", "src", name, "Makefile")
	text, err := os.ReadFile(makefile)
	if err != nil {
		return err
	}
	return os.WriteFile(makefile, []byte(strings.ReplaceAll(string(text), "/usr/src/", "../")), 0o644)
}

var version = regexp.MustCompile(`^\d+\.\d+`)

// driverSource returns the directory of a driver's source, extracted from the package of the kernel's source. part is its
// directory there.
func (k kernel) driverSource(ctx context.Context, cacheDir, driver, part string) (string, error) {
	dir := filepath.Join(cacheDir, driver+"-source-"+k.release)
	err := publishFile(dir, func(tmp string) error { return k.cutOut(ctx, part, tmp) })
	if err != nil {
		return "", fmt.Errorf("fetch source of %s for %s: %w", driver, k.release, err)
	}
	return dir, nil
}

func (k kernel) cutOut(ctx context.Context, part, dir string) error {
	tree := "linux-source-" + version.FindString(k.release)
	debs, err := k.from.download(ctx, dir, tree)
	if err != nil {
		return err
	}
	// The whole source would take more than a gigabyte.
	const script = `dpkg --fsys-tarfile "$1" | tar -xO "./usr/src/$2.tar.xz" | tar -xJ --strip-components="$4" "$2/$3"`
	depth := strings.Count(part, "/") + 2
	_, err = runCommand(ctx, dir, "bash", "-c", "set -o pipefail; "+script, "cut", debs[0], tree, part, fmt.Sprint(depth))
	if err != nil {
		return err
	}
	return os.Remove(debs[0])
}
