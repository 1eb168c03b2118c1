// Package prerequisite skips tests for which something is missing on this machine, and fails them where it should have
// been there.
package prerequisite

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// variable lists, separated by commas, what must not be missing: what CI and make try-... set.
const variable = "RDMA_EVENTS_REQUIRE"

// What a test may miss, as the variable names it.
const (
	Root           = "root"
	Netlink        = "netlink"    // sockets of it, which some sandboxes refuse
	UserNamespaces = "namespaces" // made by the user that runs the tests
	Package        = "package"    // what make package builds
	Image          = "image"      // what make try-image builds
)

// Missing skips the test with the reason, or fails it if the variable names what is missing.
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
