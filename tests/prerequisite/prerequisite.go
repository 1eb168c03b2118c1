// Package prerequisite skips a test when something that it needs is missing on this machine, or fails the test when
// that is required to be there.
package prerequisite

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// variable is the environment variable that lists what must not be missing, separated by commas. CI and make try-...
// set it.
const variable = "RDMA_EVENTS_REQUIRE"

// Names of prerequisites in the variable.
const (
	Root           = "root"
	Netlink        = "netlink"    // netlink sockets, which some sandboxes refuse
	Landlock       = "landlock"   // a kernel with Landlock, in its list lsm=
	UserNamespaces = "namespaces" // user namespaces made by the user that runs the tests
	Interfaces     = "interfaces" // iproute2, and a kernel that makes veth interfaces
	Package        = "package"    // the package that make package builds
	Image          = "image"      // the image that make try-image builds
	PVRDMA         = "pvrdma"     // QEMU's model of a paravirtual RDMA device, which later releases have no more
	Trace          = "trace"      // a process that single-steps its child (ptrace(2)), which some sandboxes refuse
	Readers        = "readers"    // mandoc, bash and zsh, which read what the command print prints
)

// Missing skips the test with the reason. It fails the test if RDMA_EVENTS_REQUIRE has what.
func Missing(t testing.TB, what, reason string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(variable), ","), what) {
		t.Fatalf("missing, and %s has %q: %s", variable, what, reason)
	}
	t.Skip(reason)
}

// RequireRoot calls Missing unless the test runs as root.
func RequireRoot(t testing.TB, reason string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, Root, reason)
	}
}
