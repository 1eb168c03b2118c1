package native

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
