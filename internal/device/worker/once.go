package worker

import (
	"os"
	"path/filepath"
	"slices"
)

// OnceEnvironment returns the environment of a worker program that is run for one answer
// (process.Once) and reads files, besides libraries.
func OnceEnvironment(files []string) []string {
	return slices.Concat(environment(os.Environ()), readable(files))
}

// OnceReads returns the files that OnceEnvironment has named to this process.
func OnceReads() []string { return filepath.SplitList(os.Getenv(readKey)) }
