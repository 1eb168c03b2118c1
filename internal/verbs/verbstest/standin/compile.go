package standin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Compile builds the library from the directory sources into dir and returns its
// file, whose name is that of the real one. It blocks while the compiler runs.
func Compile(sources, dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(sources, "*"))
	if err != nil {
		return "", err
	}
	library := filepath.Join(dir, "libibverbs.so.1")
	args := []string{"-shared", "-fPIC", "-g", "-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
		"-Wl,-soname,libibverbs.so.1", "-o", library}
	for _, f := range files {
		// The test cache knows of the files that this process looks at, not of the compiler's.
		if _, err := os.Stat(f); err != nil {
			return "", err
		}
		if filepath.Ext(f) == ".c" {
			args = append(args, f)
		}
	}
	if out, err := exec.Command("cc", append(args, "-lpthread")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the stand-in: %w\n%s", err, out)
	}
	return library, nil
}
