package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// NextLibrary is the release of rdma-core in the next Debian release. Guests of WithNextLibrary use it.
const NextLibrary = "56.1"

const nextSuite = "trixie"

// pin is a Debian package of one exact version, with the digest of its file.
type pin struct{ name, version, sha256 string }

func (p pin) String() string { return p.name + "=" + p.version }

// nextLibrary returns the packages of libibverbs, its providers and the libraries that they link, for amd64.
func nextLibrary() []pin {
	return []pin{
		{"libibverbs1", "56.1-1", "4c3b889607586e6328964a5f98e01ef01daa415be24334d743d6654aab4c47a4"},
		{"ibverbs-providers", "56.1-1", "4ae7a507fd2667d245c9c06091517ff1acbb2008fd39c8257445badd701b503a"},
		{"libnl-3-200", "3.7.0-2", "ce5c153953016be42def7b105f37d55eae07a9608d1dfe6bcb03cc017fc384cb"},
		{"libnl-route-3-200", "3.7.0-2", "1c8c95542688996cff8e954583642b10a3bd78b69954f565fda62144c2bc3897"},
	}
}

// nextLibc is the package of the C library. The libraries of nextLibrary need version 2.38 to load, and Debian 12
// has 2.36. The package is not pinned, because it changes with each point release and is not under test.
const nextLibc = "libc6"

// WithNextLibrary returns an image whose guests have libibverbs, its providers and the C library of the next
// Debian release in place of this machine's. All programs of the guest use them. The first call fetches 20 MB.
func (img *Image) WithNextLibrary(ctx context.Context) (*Image, error) {
	unlock, err := lockDir(ctx, img.cacheDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var parts [][]byte
	for _, p := range nextLibrary() {
		parts = append(parts, []byte(p.sha256))
	}
	with := *img
	with.layer = filepath.Join(img.cacheDir, "rdma-core-"+NextLibrary+"-"+contentDigest(parts...))
	err = publishFile(with.layer, func(tmp string) error { return unpackNextLibrary(ctx, img.cacheDir, tmp) })
	if err != nil {
		return nil, fmt.Errorf("fetch rdma-core %s of %s: %w", NextLibrary, nextSuite, err)
	}
	return &with, nil
}

func unpackNextLibrary(ctx context.Context, cacheDir, dir string) error {
	from, err := openArchive(ctx, cacheDir, nextSuite)
	if err != nil {
		return err
	}
	wanted := []string{nextLibc}
	for _, p := range nextLibrary() {
		wanted = append(wanted, p.String())
	}
	debs, err := from.download(ctx, dir, wanted...)
	if err != nil {
		return fmt.Errorf("%w; if the archive has another version now, the pins in tests/lab/library.go are to follow it", err)
	}
	if err := requirePins(debs, nextLibrary()); err != nil {
		return err
	}
	if err := unpackAll(ctx, dir, debs); err != nil {
		return err
	}
	return requireMergedUsr(dir)
}

// requirePins returns an error unless debs has a file with the right digest for each pin.
func requirePins(debs []string, pins []pin) error {
	sums := map[string]string{}
	for _, deb := range debs {
		text, err := os.ReadFile(deb)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		name, _, _ := strings.Cut(filepath.Base(deb), "_")
		sums[name] = hex.EncodeToString(sum[:])
	}
	var errs []error
	for _, p := range pins {
		if sums[p.name] != p.sha256 {
			errs = append(errs, fmt.Errorf("check %s: want sha256 %s, got %q", p, p.sha256, sums[p.name]))
		}
	}
	return errors.Join(errs...)
}

// requireMergedUsr returns an error if dir has a file that would hide a symbolic link of the root, over which dir
// is mounted.
func requireMergedUsr(dir string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("lay packages over the root: one has files in /%s, which is a link there", name)
		}
	}
	return nil
}
