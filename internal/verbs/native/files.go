package native

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files returns what the native backend opens, and the libraries under it:
// files and directories that it reads, and directories of device nodes, where a
// device may appear at any time. For a process that gives up the rest.
func Files() (read, devices []string) {
	read = []string{
		"/sys",
		"/proc/cpuinfo", // mlx5 looks for the processor's maker
		"/etc/ld.so.cache", "/etc/ld.so.preload",
		// Which provider libraries there are, by packages and by hand.
		"/etc/libibverbs.d", "/usr/local/etc/libibverbs.d",
	}
	return slices.Concat(read, loaderDirs("/etc/ld.so.conf")), []string{"/dev/infiniband"}
}

// loaderDirs returns where the dynamic loader looks for libraries (ld.so(8)): in
// the directories of the environment, of its configuration file conf, and of its
// own.
func loaderDirs(conf string) []string {
	named := strings.FieldsFunc(os.Getenv("LD_LIBRARY_PATH"), func(r rune) bool { return r == ':' || r == ';' })
	built := []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}
	return slices.DeleteFunc(slices.Concat(named, configuredDirs(conf, 10), built),
		func(dir string) bool { return !filepath.IsAbs(dir) })
}

// configuredDirs reads a file of ldconfig(8): a directory in each line, or
// "include" and a pattern of further files, which may include each other: deeper
// than depth they are not followed.
func configuredDirs(conf string, depth int) []string {
	text, err := os.ReadFile(conf)
	if err != nil || depth == 0 {
		return nil // not every loader has one
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
