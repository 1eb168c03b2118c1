package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// readKey is the environment variable that lists the files that the worker will read for its
// request, separated as in PATH. The worker needs the list at its start, before it gives up
// access to other files.
const readKey = "RDMA_EVENTS_READ"

// readEnvironment returns the environment variable that lists the files that a worker reads.
func readEnvironment(files []string) []string {
	if len(files) == 0 {
		return nil
	}
	return []string{readKey + "=" + strings.Join(files, string(os.PathListSeparator))}
}

// noPreemption keeps the Go runtime of a worker from sending SIGURG to the worker's threads. Some
// drivers wait interruptibly for the answer to a command, and any signal makes the command fail
// (drivers.Driver.Interruptible). With this setting the runtime preempts goroutines only at
// function calls (https://pkg.go.dev/runtime#hdr-Environment_Variables), which is enough for a
// worker: it has no long loop without a call. A //go:debug directive cannot set this.
const noPreemption = "GODEBUG=asyncpreemptoff=1"

// inheritedEnvironment returns the variables that a worker gets from the environment of the host: the variables that the loader
// and the verbs libraries read, and in addition noPreemption. It omits all others, because Telegraf's environment contains
// secrets. It also omits the host's GODEBUG.
func inheritedEnvironment(host []string) []string {
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

// OnceEnvironment returns the environment of a worker program that is run for a single answer
// (process.Once) and reads files besides libraries.
func OnceEnvironment(files []string) []string {
	return slices.Concat(inheritedEnvironment(os.Environ()), readEnvironment(files))
}

// OnceReads returns the files that OnceEnvironment has listed for this process.
func OnceReads() []string { return filepath.SplitList(os.Getenv(readKey)) }
