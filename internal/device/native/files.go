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

// Files returns the paths that the native backend and its libraries open, for a process that
// gives up access to all other files. read lists the files and directories that they read;
// devices lists the directories of device nodes, where a device may appear at any time.
func Files() (read, devices []string) {
	read = []string{
		"/sys",
		"/proc/cpuinfo", // mlx5 reads the processor's vendor
		"/etc/ld.so.cache", "/etc/ld.so.preload",
		// These list the provider libraries that packages and administrators have installed.
		"/etc/libibverbs.d", "/usr/local/etc/libibverbs.d",
	}
	dirs := loaderDirs("/etc/ld.so.conf")
	return slices.Concat(read, dirs, libraryDirs(dirs)), []string{"/dev/infiniband"}
}

// defaultDirs returns the directories that the loader searches last, with any configuration.
func defaultDirs() []string { return []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"} }

// loaderDirs returns the directories in which the dynamic loader searches for libraries
// (ld.so(8)): directories from the environment, from its configuration file conf, and its
// default directories.
func loaderDirs(conf string) []string {
	named := strings.FieldsFunc(os.Getenv("LD_LIBRARY_PATH"), func(r rune) bool { return r == ':' || r == ';' })
	return slices.DeleteFunc(slices.Concat(named, configuredDirs(conf, 10), defaultDirs()),
		func(dir string) bool { return !filepath.IsAbs(dir) })
}

// configuredDirs reads a configuration file of ldconfig(8). Each line has a directory, or
// "include" and a pattern of further files. Files may include each other, so configuredDirs
// follows includes only to depth.
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

// libraryDirs returns the directories that libibverbs itself names, for each libibverbs in dirs. These are the directories of its
// configuration and its providers, which are compiled in with the prefix of rdma-core, and the RUNPATH of the library and its
// providers, which the loader searches for dependencies (ld.so(8)). LD_LIBRARY_PATH and ldconfig(8) do not contain them.
//
// libraryDirs trusts a library only if root or this process's user owns it and no other user can write to it. It accepts only
// directories with the name of a library directory: a worker gives a library access to no other files.
func libraryDirs(dirs []string) []string {
	var own []string
	for _, dir := range dirs {
		if isDefault(dir) {
			continue // the directories of such a library are known, and reading it would delay the start of each worker
		}
		built, runpath := readLibraryDirs(filepath.Join(dir, "libibverbs.so.1"))
		own = append(own, built...)
		own = append(own, runpath...)
		for _, providers := range append(built, dir) {
			files, _ := filepath.Glob(filepath.Join(providers, "lib*-rdmav*.so")) // a bad pattern names no file
			for _, file := range files {
				_, runpath := readLibraryDirs(file)
				own = append(own, runpath...)
			}
		}
	}
	slices.Sort(own)
	return slices.Compact(own)
}

// isDefault reports whether a directory is a default directory of the loader, or below one.
func isDefault(dir string) bool {
	return slices.ContainsFunc(defaultDirs(), func(d string) bool { return dir == d || strings.HasPrefix(dir, d+"/") })
}

// readLibraryDirs returns the directories that a library names: compiled-in directories, and its RUNPATH or RPATH. It returns none
// for a file that is not trusted or is no library.
func readLibraryDirs(path string) (built, runpath []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err != nil || !isTrusted(info) {
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
	return keepLibraryDirs(builtInDirs(library)), keepLibraryDirs(runpath)
}

// isTrusted reports whether only root and this process's user can have written the file.
func isTrusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	const others = 0o022
	return ok && info.Mode().IsRegular() && info.Mode().Perm()&others == 0 && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// builtInDirs returns IBV_CONFIG_DIR and VERBS_PROVIDER_DIR of a libibverbs (libibverbs/dynamic_driver.c of rdma-core). It finds
// them among the library's strings: the first ends with libibverbs.d, the second precedes the pattern of a provider's file name.
func builtInDirs(library *elf.File) []string {
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

// keepLibraryDirs returns the directories with the name of a library directory: lib, lib64, libibverbs, libibverbs.d,
// x86_64-linux-gnu.
func keepLibraryDirs(dirs []string) []string {
	return slices.DeleteFunc(dirs, func(dir string) bool {
		base := filepath.Base(dir)
		return !filepath.IsAbs(dir) || !strings.HasPrefix(base, "lib") && !strings.Contains(base, "-linux-")
	})
}
