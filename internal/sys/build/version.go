// Package build tells which version of the project a program was built from.
package build

import (
	"cmp"
	"runtime/debug"
)

// Version returns the version of the program: linked, which the linker of a package sets; else the version of the module
// that `go install` built; else "dev".
func Version(linked string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return cmp.Or(linked, moduleVersion(info), "dev")
}

// moduleVersion returns the version of the main module, or "" if it was built in a checkout.
func moduleVersion(info *debug.BuildInfo) string {
	if info.Main.Sum == "" { // a module of a proxy has a checksum
		return ""
	}
	return info.Main.Version
}
