package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"rdma_events/internal/sys/build"
)

// version and commit are set by the linker with -X main.version and -X main.commit.
var version, commit string

// describeBuild returns the version, commit and compiler. If the linker did not set the commit, it comes from the
// compiler's build information.
func describeBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return fmt.Sprintf("%s (commit %s, %s)", buildVersion(), cmp.Or(commit, buildRevision(info), "unknown"), runtime.Version())
}

// buildVersion returns the version alone.
func buildVersion() string { return build.Version(version) }

func buildRevision(info *debug.BuildInfo) string {
	var rev, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return ""
	}
	return rev + dirty
}
