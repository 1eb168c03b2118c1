package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CompileC compiles one C file with cc into the cache and returns the program's path. The name contains a
// digest of the source and the flags, so that an unchanged program is not compiled again.
func (img *Image) CompileC(ctx context.Context, source string, flags ...string) (string, error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", fmt.Errorf("read C source: %w", err)
	}
	unlock, err := lockDir(ctx, img.cacheDir)
	if err != nil {
		return "", err
	}
	defer unlock()
	return compileC(ctx, img.cacheDir, strings.TrimSuffix(filepath.Base(source), ".c"), text, flags...)
}

func compileC(ctx context.Context, cacheDir, name string, source []byte, flags ...string) (string, error) {
	dir := filepath.Join(cacheDir, "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name+"-"+contentDigest(source, []byte(strings.Join(flags, " "))))
	err := publishFile(path, func(tmp string) error {
		if err := os.WriteFile(path+".c", source, 0o644); err != nil {
			return err
		}
		args := append([]string{"-O2", "-Wall", "-Wextra", "-o", tmp, path + ".c"}, flags...)
		_, err := runCommand(ctx, dir, "cc", args...)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("compile %s.c: %w", name, err)
	}
	return path, nil
}
