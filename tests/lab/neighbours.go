package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// neighbourPackages returns the packages of other programs that use RDMA devices, and of the libraries that these programs load.
// They have the versions of the host's release, like the libraries of rdma-core, which guests take from the host.
func neighbourPackages() []string {
	return []string{
		"ibverbs-utils", "perftest", "rdmacm-utils",
		"ucx-utils", "libucx0", "libnuma1", "libgomp1",
		"python3-pyverbs", "python3.11-minimal", "libpython3.11", "libpython3.11-minimal", "libpython3.11-stdlib",
	}
}

// NeighbourVersions is the path, in a guest of WithNeighbours, of a file with a line for each package, as in perftest_4.5+0.17-1_amd64.
const NeighbourVersions = "/usr/share/lab/neighbours"

// WithNeighbours returns an image whose guests have programs of others that use RDMA devices. They are unpacked and not installed. The
// first call fetches 10 MB.
func (img *Image) WithNeighbours(ctx context.Context) (*Image, error) {
	unlock, err := lockDir(ctx, img.cacheDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	with := *img
	with.layer = filepath.Join(img.cacheDir, "neighbours-"+contentDigest([]byte(strings.Join(neighbourPackages(), " "))))
	err = publishFile(with.layer, func(tmp string) error { return unpackNeighbours(ctx, tmp) })
	if err != nil {
		return nil, fmt.Errorf("fetch programs of others: %w", err)
	}
	return &with, nil
}

func unpackNeighbours(ctx context.Context, dir string) error {
	debs, err := archive{}.download(ctx, dir, neighbourPackages()...)
	if err != nil {
		return err
	}
	if err := unpackAll(ctx, dir, debs); err != nil {
		return err
	}
	if err := requireMergedUsr(dir); err != nil {
		return err
	}
	// Debian compresses the larger ones of the tests of pyverbs, as documents.
	if _, err := runCommand(ctx, dir, "gunzip", "-r", filepath.Join(dir, "usr/share/doc/rdma-core/tests")); err != nil {
		return err
	}
	versions := filepath.Join(dir, NeighbourVersions)
	if err := os.MkdirAll(filepath.Dir(versions), 0o755); err != nil {
		return err
	}
	var lines strings.Builder
	for _, deb := range slices.Sorted(slices.Values(debs)) {
		lines.WriteString(strings.TrimSuffix(filepath.Base(deb), ".deb") + "\n")
	}
	return os.WriteFile(versions, []byte(lines.String()), 0o644)
}
