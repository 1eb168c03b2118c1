package native

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Files returns the paths that the native backend and the libraries below it open. read
// are the files and directories that they read; devices are the directories of device
// nodes, where a device may appear at any time. It is for a process that gives up access
// to all other files.
func Files() (read, devices []string) {
	read = []string{
		"/sys",
		"/proc/cpuinfo", // mlx5 reads the processor's maker
		"/etc/ld.so.cache", "/etc/ld.so.preload",
		// These list the provider libraries that packages and administrators have installed.
		"/etc/libibverbs.d", "/usr/local/etc/libibverbs.d",
	}
	dirs := loaderDirs("/etc/ld.so.conf")
	return slices.Concat(read, dirs, ownDirs(dirs)), []string{"/dev/infiniband"}
}

// defaultDirs returns the directories in which the loader searches last, whatever its configuration.
func defaultDirs() []string { return []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"} }

// loaderDirs returns the directories in which the dynamic loader searches for libraries
// (ld.so(8)): those of the environment, of its configuration file conf, and its default
// ones.
func loaderDirs(conf string) []string {
	named := strings.FieldsFunc(os.Getenv("LD_LIBRARY_PATH"), func(r rune) bool { return r == ':' || r == ';' })
	return slices.DeleteFunc(slices.Concat(named, configuredDirs(conf, 10), defaultDirs()),
		func(dir string) bool { return !filepath.IsAbs(dir) })
}

// configuredDirs reads a file of ldconfig(8). Each line has a directory, or "include" and
// a pattern of further files. These may include each other, so configuredDirs follows
// them to depth only.
func configuredDirs(conf string, depth int) []string {
	text, err := os.ReadFile(conf)
	if err != nil || depth == 0 {
		return nil // not every loader has such a file
	}
	var dirs []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 2 && words[0] == "include" {
			more, _ := filepath.Glob(relativeTo(conf, words[1])) // a bad pattern names no file
			for _, file := range more {
				dirs = append(dirs, configuredDirs(file, depth-1)...)
			}
			continue
		}
		dirs = append(dirs, words...)
	}
	return dirs
}

func relativeTo(conf, pattern string) string {
	if filepath.IsAbs(pattern) {
		return pattern
	}
	return filepath.Join(filepath.Dir(conf), pattern)
}

// ownDirs returns the directories that the libibverbs of each of some directories names itself: that of its configuration and
// of its providers, which are built in by the prefix of an rdma-core, and those in RUNPATH of it and its providers, which the
// loader searches for their dependencies (ld.so(8)). The loader alone finds none of them by LD_LIBRARY_PATH or ldconfig(8).
//
// A library is believed only if root or this process' user owns it and no other user can write to it, and only as far as the
// name of a directory is one of libraries: a worker shows a library no other files.
func ownDirs(dirs []string) []string {
	var own []string
	for _, dir := range dirs {
		if isDefault(dir) {
			continue // its directories are known, and reading it would delay the start of each worker
		}
		built, runpath := readNames(filepath.Join(dir, "libibverbs.so.1"))
		own = append(own, built...)
		own = append(own, runpath...)
		for _, providers := range append(built, dir) {
			files, _ := filepath.Glob(filepath.Join(providers, "lib*-rdmav*.so")) // a bad pattern names no file
			for _, file := range files {
				_, runpath := readNames(file)
				own = append(own, runpath...)
			}
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// isDefault reports whether a directory is one of the loader's own, or below it.
func isDefault(dir string) bool {
	return slices.ContainsFunc(defaultDirs(), func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") })
}

// readNames returns the directories that a library names: those built into it, and those of its RUNPATH or RPATH. It returns
// none for a file that is not believed, or is no library.
func readNames(path string) (built, runpath []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err != nil || !believed(info) {
		return nil, nil
	}
	library, err := elf.NewFile(f)
	if err != nil {
		return nil, nil
	}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		lists, _ := library.DynString(tag) // a file without the tag names none
		for _, list := range lists {
			for _, dir := range strings.Split(list, ":") {
				dir = strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(dir)
				runpath = append(runpath, filepath.Clean(dir))
			}
		}
	}
	return ofLibraries(builtIn(library)), ofLibraries(runpath)
}

// believed reports whether no other user than root and that of this process can have written the file.
func believed(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	const others = 0o022
	return ok && info.Mode().IsRegular() && info.Mode().Perm()&others == 0 && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// builtIn returns the directories of the texts that libibverbs has as IBV_CONFIG_DIR and VERBS_PROVIDER_DIR
// (libibverbs/dynamic_driver.c of rdma-core): the first ends with libibverbs.d, the second is before the pattern of a provider.
func builtIn(library *elf.File) []string {
	const most = 16 << 20
	section := library.Section(".rodata")
	if section == nil || section.Size > most {
		return nil
	}
	data, err := section.Data()
	if err != nil {
		return nil
	}
	var dirs []string
	for text := range bytes.SplitSeq(data, []byte{0}) {
		if len(text) == 0 || text[0] != '/' {
			continue
		}
		if dir, _, ok := strings.Cut(string(text), "/lib%s-rdmav"); ok {
			dirs = append(dirs, dir)
		} else if strings.HasSuffix(string(text), "/libibverbs.d") {
			dirs = append(dirs, string(text))
		}
	}
	return dirs
}

// ofLibraries returns those directories whose name is one of libraries: lib, lib64, libibverbs, libibverbs.d,
// x86_64-linux-gnu.
func ofLibraries(dirs []string) []string {
	return slices.DeleteFunc(dirs, func(dir string) bool {
		base := filepath.Base(dir)
		return !filepath.IsAbs(dir) || !strings.HasPrefix(base, "lib") && !strings.Contains(base, "-linux-")
	})
}
