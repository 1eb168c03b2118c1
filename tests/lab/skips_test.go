//go:build lab

package lab

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowedSkips is the complete list of tests that may skip in a guest. Any other skip is a failure.
var allowedSkips = []struct {
	driver string
	tests  string // a regular expression for the test's name
	reason string
}{
	{"siw", `^TestNativeBackendKeepsTheContract/probes/rc_write_`,
		"a queue pair of siw is connected by its connection manager only (docs/reference/compatibility.md)"},
	{"siw", `^TestNativeBackendKeepsTheContract/(events/a_new_address_is_a_gid_change|ports/a_new_address_is_in_the_GID_table)$`,
		"the one GID of an iWARP port is made of its MAC address, and siw reports no change (docs/reference/compatibility.md)"},
	{"siw", `^TestOneAddressIsOneGIDChange$`, "as above"},
	{"siw", `^(TestNativeBackendKeepsTheContract/fabrics/|TestTheFabricKeepsItsContractOnSoftRoCE$)`,
		"iWARP never has a Fabric: TestNativeBackendOnSIWNeverHasAFabric"},
	{"rxe", `^TestNativeBackendKeepsTheContract/fabrics/`, "one device has no peer: TestTheFabricKeepsItsContractOnSoftRoCE has two"},
	{"siw", `^(TestReaddedAddress|TestAnotherAddress|TestChangedMACAddress|TestMovedGID|TestAddressOfAPod)`, "iWARP has no datagrams, and its GID no address"},
	{"siw", `^(TestALinkWithoutCarrier|TestAddressesThatCome|TestAChangedMACAddress|TestAVLAN)`, "siw follows no carrier, and its GID no address"},
	{"siw", `^(TestALinkThatIsSetDownIsExplained|TestStatisticsOfTheInterfaceAreReadWithoutRights)$`,
		"Linux 6.1 names no netdev in the GID table of an iWARP port"},
	{"siw", `^(TestEventsAreReadWhileTheRTNLLockIsHeld|TestALinkDeletionWaitsForNoSnapshot|TestTheReportOfABadDay)$`,
		"they begin with a link that has lost its carrier"},
	{"siw", `^(TestObjectsAre|TestWhoHoldsWhatIsAsRDMAResourceShowsIt$)`,
		"a queue pair of siw is connected by its connection manager only (docs/reference/compatibility.md)"},
	{"siw", `^(TestADeviceCausesEventsByItself|TestEventsThatADeviceCausesAreThoseOfTheApplication)$`, "as above"},
	{"siw", `^TestTheKernelKeepsTheContractWith[A-Za-z]*/ends/(a_process_learns_of_the_removal|a_hang_is_seen_after_its_device)`, softDevicesStay},
	{"rxe", `^TestTheKernelKeepsTheContractWith[A-Za-z]*/ends/(a_process_learns_of_the_removal|a_hang_is_seen_after_its_device)`, softDevicesStay},
	{"siw", `^(TestReleaseWaitsForAWatchToCloseTheDevice|TestModprobeReleasesBeforeItUnloads)$`, "siw is no module of the guest's kernel"},
	{"siw", `^(TestTheLegsOfABondBelowAPortAreCounted|TestObjectsOfThisThreadAreCountedByState)$`, "they use rxe"},
	{"siw", `^TestHardwareIs`, "iWARP has one method of a probe, and so nothing to compare"},
	{"siw", `^TestProbeFollowsTheLink$`, "the probe of siw has one method, which needs no link: TestOnIWARPTheProbe..."},
	{"siw", `^TestNativeBackendSaysWhatFailedWhenTheLinkIsDown$`, "the probe of siw has one method, which needs no link"},
	{"rxe", `^TestOnIWARP|^TestNativeBackendOnSIW`, "needs siw, which the lab builds for the runs about it"},
}

const softDevicesStay = "rdma link delete waits until each process has closed a soft device, and takes it away from none"

// maySkip returns the reason why a test may skip, or "" if it may not.
func maySkip(test string, v variant) string {
	for _, s := range allowedSkips {
		if s.driver == v.driver && regexp.MustCompile(s.tests).MatchString(test) {
			return s.reason
		}
	}
	return ""
}

// A test of one driver skips in the guests of the other, of which the long forms run in turn: a skip that is not allowed would be
// found weeks later.
func TestSkipOfTestsOfOneDriverIsAllowed(t *testing.T) {
	found := 0
	for _, pattern := range []string{"system/*_test.go", "../../internal/device/native/*guest_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, path := range files {
			for test, driver := range testsOfOneDriver(t, path) {
				found++
				other := map[string]string{"rxe": "siw", "siw": "rxe"}[driver]
				require.NotEmpty(t, maySkip(test, variant{driver: other}), "%s of %s requires %s", test, path, driver)
			}
		}
	}
	require.NotZero(t, found)
}

// testsOfOneDriver returns the tests of a file that require a driver by its name.
func testsOfOneDriver(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	tests := map[string]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !regexp.MustCompile("^Test").MatchString(f.Name.Name) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			name, ok := call.Fun.(*ast.SelectorExpr)
			driver, isText := call.Args[1].(*ast.BasicLit)
			if ok && isText && name.Sel.Name == "RequireDriver" {
				tests[f.Name.Name] = driver.Value[1 : len(driver.Value)-1]
			}
			return true
		})
	}
	return tests
}
