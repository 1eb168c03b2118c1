package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archive is a source of packages: the archive of the host's apt, or a suite that the host's apt need not
// know, with separate package lists below the cache. Nothing is installed from it.
type archive struct{ options []string }

// openArchive returns the host's archive for the suite "", the backports of the host's release for "backports",
// and otherwise the suite of that name. Package lists are fetched once and are part of the cache.
func openArchive(ctx context.Context, cacheDir, suite string) (archive, error) {
	if suite == "" {
		return archive{}, nil
	}
	uri, codename, err := debianSource(ctx)
	if err != nil {
		return archive{}, fmt.Errorf("find suite %s: %w", suite, err)
	}
	if suite == "backports" {
		suite = codename + "-backports"
	}
	dir := filepath.Join(cacheDir, "apt-"+suite)
	a := archive{[]string{
		"-o", "Dir::Etc::sourcelist=" + filepath.Join(dir, "sources.list"), "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"),
		// By default these files are shared with the host's lists.
		"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
	}}
	err = publishFile(filepath.Join(dir, "fetched"), func(tmp string) error { return a.fetchLists(ctx, dir, uri, suite, tmp) })
	if err != nil {
		return archive{}, fmt.Errorf("fetch package lists of %s: %w", suite, err)
	}
	return a, nil
}

func (a archive) fetchLists(ctx context.Context, dir, uri, suite, done string) error {
	if err := os.MkdirAll(filepath.Join(dir, "lists", "partial"), 0o755); err != nil {
		return err
	}
	source := fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", uri, suite)
	if err := os.WriteFile(filepath.Join(dir, "sources.list"), []byte(source), 0o644); err != nil {
		return err
	}
	if _, err := runCommand(ctx, dir, "apt-get", slices.Concat(a.options, []string{"-q", "update", "--error-on=any"})...); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}

// debianSource returns the URI of the Debian archive that the host's apt uses, and the codename of the release.
func debianSource(ctx context.Context) (uri, codename string, err error) {
	out, err := runCommand(ctx, "", "apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)",
		"Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(out) {
		// The codename of a release is one word. This excludes bookworm-updates.
		if f := strings.Fields(line); len(f) == 2 && !strings.Contains(f[1], "-") {
			return f[0], f[1], nil
		}
	}
	return "", "", errors.New("apt knows no Debian release; run apt-get update")
}

// depends returns the names of the packages that pkg depends on, including all alternatives.
func (a archive) depends(ctx context.Context, pkg string) ([]string, error) {
	out, err := runCommand(ctx, "", "apt-cache", slices.Concat(a.options, []string{"depends", pkg})...)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", pkg, err)
	}
	var names []string
	for line := range strings.Lines(out) {
		if dep, ok := strings.CutPrefix(strings.TrimLeft(line, " |"), "Depends: "); ok {
			names = append(names, strings.TrimSpace(dep))
		}
	}
	return names, nil
}

// download makes dir, fetches packages into it and returns their files.
func (a archive) download(ctx context.Context, dir string, pkgs ...string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	args := slices.Concat(a.options, []string{"-q", "download"}, pkgs)
	if _, err := runCommand(ctx, dir, "apt-get", args...); err != nil {
		return nil, fmt.Errorf("%w (with old package lists this helps: apt-get update, make clean)", err)
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err == nil && len(debs) != len(pkgs) {
		err = fmt.Errorf("find downloaded packages: want %d, got %d files", len(pkgs), len(debs))
	}
	return debs, err
}

// unpack downloads packages and unpacks them into dir.
func (a archive) unpack(ctx context.Context, dir string, pkgs ...string) error {
	debs, err := a.download(ctx, dir, pkgs...)
	if err != nil {
		return err
	}
	return unpackAll(ctx, dir, debs)
}

// unpackAll unpacks packages into dir and removes their files.
func unpackAll(ctx context.Context, dir string, debs []string) error {
	for _, deb := range debs {
		if _, err := runCommand(ctx, dir, "dpkg", "-x", deb, dir); err != nil {
			return err
		}
		if err := os.Remove(deb); err != nil {
			return err
		}
	}
	return nil
}
