package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readKey is the environment variable that names the files that the worker's request will
// make it read, separated as in PATH. The worker needs the names at its start, before it
// gives up other files.
const readKey = "RDMA_EVENTS_READ"

// readable returns the environment of a worker that reads files.
func readable(files []string) []string {
	if len(files) == 0 {
		return nil
	}
	return []string{readKey + "=" + strings.Join(files, string(os.PathListSeparator))}
}

// noPreemption keeps the Go runtime of a worker from sending SIGURG to its own threads. Some
// drivers wait interruptibly for the answer to a command and turn any signal into an error of
// the command (drivers.Driver.Interruptible). The runtime then preempts goroutines only at
// calls of functions (https://pkg.go.dev/runtime#hdr-Environment_Variables), which is enough
// for a worker: it has no long loop without a call. A //go:debug directive cannot set this.
const noPreemption = "GODEBUG=asyncpreemptoff=1"

// environment returns a worker's environment: the variables of the host's environment that
// the loader and the verbs libraries read, and noPreemption. Telegraf's environment contains
// secrets, and a GODEBUG of the host is not for the worker.
func environment(host []string) []string {
	exact := []string{"PATH", "LD_LIBRARY_PATH"}
	prefixes := []string{"RDMAV_", "IBV_", "MLX5_", "VERBS_"}
	kept := []string{noPreemption}
	for _, kv := range host {
		key, _, _ := strings.Cut(kv, "=")
		hasPrefix := func(p string) bool { return strings.HasPrefix(key, p) }
		if slices.Contains(exact, key) || slices.ContainsFunc(prefixes, hasPrefix) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// OnceEnvironment returns the environment of a worker program that is run for one answer
// (process.Once) and reads files, besides libraries.
func OnceEnvironment(files []string) []string {
	return slices.Concat(environment(os.Environ()), readable(files))
}

// OnceReads returns the files that OnceEnvironment has named to this process.
func OnceReads() []string { return filepath.SplitList(os.Getenv(readKey)) }
