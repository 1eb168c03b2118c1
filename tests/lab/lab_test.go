//go:build lab

package lab

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"rdma_events/tests/prerequisite"
)

var (
	chosen = flag.String("guest.run", "", "a regular expression for the tests to run in guests, of those that would")
	cases  = flag.String("guest.cases", "", "regular expressions for the subtests to run of these tests, as behind the first slash of go test's -run")
	whole  = flag.String("guest.whole", "", "a regular expression for the variants of TestVariants that run all of their tests")
	share  = flag.Int("guest.share", 0, "with -guest.whole or TestSlow: one share of the guests alone, from 1 to -guest.shares; 0 is all of them")
	shares = flag.Int("guest.shares", 3, "the number of shares")
)

var (
	system  = suite{pkg: "./tests/lab/system", guests: 4}
	backend = suite{pkg: "./internal/device/native", tests: "^(TestNativeBackend|TestTheFabricKeepsItsContractOnSoftRoCE$)"}
	harness = suite{pkg: "./tests/lab/guest", rxeOnly: true}
	fabric  = suite{pkg: "./tests/lab/fabric", rxeOnly: true}

	packaged  = suite{pkg: "./tests/lab/packaged"}
	contained = suite{pkg: "./tests/lab/contained"}
	beside    = suite{pkg: "./tests/lab/neighbours", rxeOnly: true}
	pvrdma    = suite{pkg: "./tests/lab/pvrdma"}

	// The suites that take longest come first, so that no guest runs alone at the end.
	suites = []suite{
		system,
		backend,
		harness,
		{pkg: "./internal/device/hotplug", tests: "^TestOnARealKernel", rxeOnly: true, shared: "others"},
		{pkg: "./internal/sys/confine", rxeOnly: true, shared: "others"},
		{pkg: "./tests/lab/app", shared: "others"},
		{pkg: "./internal/applications/ebpf", tests: "^(TestTheKernel|TestReadsOfMoreThreads|TestAProcessHasTheUnit)", guests: 3},
		{pkg: "./tests/grafana", tests: "^TestOnARealDevice", rxeOnly: true, shared: "others"},
	}
)

// These are the tests that runSuites leaves out. soak runs in a guest of its own, and recorded in three guests, one after the other
// (TestSummaryOfThreeGuestsNamesTheFlap). moves has the tests that move a device to another
// network namespace, and runs on NewestKernel only: Linux before 7.3 refuses the move with every driver that works
// without hardware. The tests in later and slow are left out with -short only. Those in later run as long forms. Those in slow take
// ten seconds to a minute each and find what few changes can break: a share of them is a turn of scripts/rotation.sh, and all are in the
// part release-rxe of make test-full.
const (
	soak     = "^TestSoak$"
	recorded = "^TestHostOfAJobRecords$"
	moves    = "^TestDeviceMovedBetweenNamespaces"
	// unloads differ by kernel, and run on NewestKernel as well.
	unloads = "^TestDriverUnloadsBesideAnOpenDeviceAsTheTableSays$"
	// gone leave their guest without its device, and run in a guest each (TestParavirtualDevice).
	gone  = "^(TestUnpluggedDeviceIsRemoved|TestRemovalOfASilentDeviceIsNotHeldUp)$"
	later = "^(TestHardwareIsTriedBesideThePlugin|TestHardwareIsNotTriedBesideQueuePairs|" +
		"TestEventsAreReadWhileTheRTNLLockIsHeld|TestAReportLeavesBehindWhatTheKernelHolds|" +
		"TestReaddedAddressKeepsItsIndex|TestTheReportOfABadDay|TestTheKernelKeepsTheContractWith.*)$"
	slow = "^(TestAPauseOfTheGuestIsNoFault|TestDriverIsReplacedDuringARelease|TestALinkDeletionWaitsForNoSnapshot|" +
		"TestABurstOf200000|TestHundredAddsAndDeletesLeaveNothingBehind|TestAStoppedTelegrafHoldsUpNoReader|" +
		"TestThisLibraryServesEventsProbesAndCounters|TestOnARealDeviceFlapsAndAnOutageFireTheirRules|" +
		"TestWhatTheTracerCountsIsWhatOthersCount|TestTwoPluginsTraceTheSameHost|TestAnIdleTracerReadsNoMap|" +
		"TestADestructionWithoutItsAcknowledgementIsAHang|TestAReportAgreesWithTheKernel|TestProcessesThatComeAndGoAreAllCounted|" +
		"TestAQueryThatHangsInTheDriverIsReportedAndStopsNoReader|TestAPlaceLosesWhatItIsAskedToAndCountsIt|" +
		"TestTheDriverIsUnloadedAfterItsLinksAndLoadedAgain|TestDoctorCommandsFixTheirFindings|TestSummaryOfThreeHostsNamesTheFlap|" +
		"TestADropEvery20ms|TestTheDriverCoreIsUnloadedBesideATracer|TestObjectsOfAWorkerHaveOneName|TestUnreadStderrStallsNothing|" +
		"TestWhoHoldsWhatIsAsRDMAResourceShowsIt|TestDriverUnloadsBesideAnOpenDeviceAsTheTableSays|TestChangedMACAddressKeepsTheDefaultGID|" +
		"TestARenamedDeviceGoesOnUnderItsNewName|TestAnotherAddressAtTheIndexFailsNoRound|TestAKilledTracerIsAGapAndWhatWaitsIsStillCounted|" +
		"TestTheKernelCountsAQueueThatIsLeftToAChild|TestManagementNetwork.*)$"
)

// quickFabric is the test of the fabric that TestFabric runs with -short. No guest runs beside it: six plugins need both processors.
const quickFabric = "^TestASeveredWayIsSeenByAllWhoUseIt$"

// twoProcessors are the tests that need two processors, by driver. They are the tests of completion vectors, since a
// soft device has one for each processor, and with rxe the tests of event floods, which take four times as long on one
// processor.
var twoProcessors = map[string]string{
	"rxe": "^(TestProbeFollowsTheLink|TestNativeBackendKeepsTheContract|TestABurstOf200000|TestAStormIsCountedToTheLastEvent)$",
	"siw": "^(TestOnIWARPTheProbeFlushesWhateverTheLinkDoes|TestNativeBackendKeepsTheContract)$",
}

// checked are the tests that make check runs in its one guest: the harness, a drop, a killed worker, a removal.
const checked = "^(TestDeviceAppearsInSysfsAndInIbvDevices|TestInjectedEventsReachAReader|" + essential + ")$"

// essential are the tests of the system that detect most faults of a kernel, a driver or a library.
const essential = "TestFiftyDropsOf40ms|TestAKilledWorkerIsReplaced|TestDeletedDeviceIsClosedAndReopened"

// reduced are the tests of a variant that does not run whole: the contract of the backend and the essential tests. A
// variant with another library also runs the test in library.
const (
	reduced = "^(TestNativeBackendKeepsTheContract|" + essential + ")$"
	library = "^TestThisLibraryServesEventsProbesAndCounters$"
)

// longForms are the tests that -short reduces or leaves out.
const longForms = "^(TestAStormIsCountedToTheLastEvent|TestAStoppedTelegrafHoldsUpNoReader|TestReaddedAddressKeepsItsIndex|" +
	"TestHundredAddsAndDeletesLeaveNothingBehind|TestKilledProcessLeavesNothingAndSuccessorReportsGap|TestTheReportOfABadDay|" +
	"TestHardwareIsTriedBesideThePlugin|TestHardwareIsNotTriedBesideQueuePairs)$"

// variant is the environment of a run of tests, and their form.
type variant struct {
	name, kernel, driver string
	library              string // the release of rdma-core; "" is this machine's
	short                bool   // without the tests' long forms
}

// usualVariant returns the variant for most tests. LAB_KERNEL names another kernel.
func usualVariant() variant {
	return variant{name: "release-rxe", kernel: cmp.Or(os.Getenv("LAB_KERNEL"), DefaultKernel), driver: "rxe", short: testing.Short()}
}

// variants are the variants of TestVariants. backports-siw runs the long forms when it runs whole: together with the
// usual variant, the long forms run on each kernel and with each driver.
var variants = []variant{
	{name: "release-siw", kernel: DefaultKernel, driver: "siw", short: true},
	{name: "backports-rxe", kernel: BackportsKernel, driver: "rxe", short: true},
	{name: "backports-siw", kernel: BackportsKernel, driver: "siw"},
	{name: "next-library", kernel: DefaultKernel, driver: "rxe", library: NextLibrary, short: true},
}

// TestGuests runs all other tests on the usual variant, in guests with one processor, or two for twoProcessors.
// -parallel is the number of guests at once. Go test's own -run selects suites (-run
// TestGuests/internal/device/native), -guest.run selects tests. With -short the tests leave out their long forms.
func TestGuests(t *testing.T) {
	t.Parallel()
	runSuites(t, usualVariant())
}

// TestLongForms runs the long forms alone, on the usual variant.
func TestLongForms(t *testing.T) {
	if testing.Short() {
		t.Skip("the long forms: make test-full PART=release-rxe")
	}
	v := usualVariant()
	img := prepareImage(t, v.kernel)
	for _, name := range system.list(t, longForms) {
		t.Run(name, func(t *testing.T) {
			session{variant: v, img: img, suites: []suite{system}, tests: []string{name}, cpus: 2}.run(t)
		})
	}
}

// TestSlow runs the tests that TestGuests leaves out with -short because they are slow, each in its own guest.
func TestSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("slow tests: make test-full PART=release-rxe")
	}
	v := usualVariant()
	img := prepareImage(t, v.kernel)
	n := 0
	for _, s := range suites {
		for _, name := range s.list(t, slow) {
			n++
			if *share > 0 && n%*shares != *share-1 {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				session{variant: v, img: img, suites: []suite{s}, tests: []string{name}, cpus: processorCount(v, []string{name})}.run(t)
			})
		}
	}
}

// TestCheckGuest runs a few tests in one guest: make check.
func TestCheckGuest(t *testing.T) {
	v := usualVariant()
	v.short = true
	both := []suite{harness, system}
	var tests []string
	for _, s := range both {
		tests = append(tests, s.list(t, checked)...)
	}
	session{variant: v, img: prepareImage(t, v.kernel), suites: both, tests: tests}.run(t)
}

// TestVariants runs the other kernels, drivers and libraries: -run TestVariants/backports-siw. A variant runs whole if
// -guest.whole matches its name, and reduced otherwise.
func TestVariants(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if *whole != "" && regexp.MustCompile(*whole).MatchString(v.name) {
				v.short = v.short || testing.Short()
				runSuites(t, v)
				return
			}
			v.short = true
			img := v.image(t)
			both := []suite{backend, system}
			var tests []string
			for _, s := range both {
				tests = append(tests, s.list(t, reduced)...)
			}
			if v.library != "" {
				tests = append(tests, system.list(t, library)...)
			}
			session{variant: v, img: img, suites: both, tests: tests}.run(t)
		})
	}
	t.Run("newest", func(t *testing.T) {
		t.Parallel()
		v := variant{name: "newest", kernel: NewestKernel, driver: "rxe", short: true}
		session{variant: v, img: v.image(t), suites: []suite{system}, tests: system.list(t, moves+"|"+unloads)}.run(t)
	})
}

// image prepares the image that the variant boots from.
func (v variant) image(t *testing.T) *Image {
	t.Helper()
	img := prepareImage(t, v.kernel)
	var err error
	if v.driver == "siw" {
		img, err = img.WithSIW(t.Context())
	}
	if err == nil && v.library != "" {
		img, err = img.WithNextLibrary(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// runSuites runs the tests of all suites on a variant in parallel guests, except soak, moves and, with -short, later and slow.
func runSuites(t *testing.T, v variant) {
	t.Helper()
	img := v.image(t)
	not := []string{soak, recorded, moves}
	if v.short {
		not = append(not, later, slow)
	}
	for n, one := range planSessions(t, v, not...) {
		if *share > 0 && n%*shares != *share-1 {
			continue
		}
		one.img = img
		t.Run(one.title, func(t *testing.T) {
			t.Parallel()
			one.run(t)
		})
	}
}

// planSessions divides the tests of all suites on a variant among guests.
func planSessions(t *testing.T, v variant, not ...string) []session {
	t.Helper()
	var all []session
	for _, s := range suites {
		if s.rxeOnly && v.driver != "rxe" || v.library != "" && s != system && s != backend {
			continue
		}
		tests := s.list(t, s.tests, not...)
		shares := func(other session) bool { return s.shared != "" && other.title == s.shared }
		if n := slices.IndexFunc(all, shares); n >= 0 {
			all[n].suites, all[n].tests = append(all[n].suites, s), append(all[n].tests, tests...)
			continue
		}
		for n, group := range s.divide(tests, v) {
			title := cmp.Or(s.shared, s.name())
			if s.guests > 1 {
				title = fmt.Sprintf("%s/%d", title, n+1)
			}
			all = append(all, session{title: title, variant: v, suites: []suite{s}, tests: group, cpus: processorCount(v, group)})
		}
	}
	return all
}

// divide divides tests among guests. If there are several guests, the first one gets all tests that need two
// processors: two guests with two processors each would need more processors than there are.
func (s suite) divide(tests []string, v variant) [][]string {
	if s.guests < 2 || len(tests) < s.guests {
		return distributeNames(tests, min(len(tests), 1))
	}
	var two, one []string
	for _, test := range tests {
		if processorCount(v, []string{test}) == 2 {
			two = append(two, test)
		} else {
			one = append(one, test)
		}
	}
	if two == nil {
		return distributeNames(one, min(s.guests, len(one)))
	}
	return append([][]string{two}, distributeNames(one, min(s.guests-1, len(one)))...)
}

func processorCount(v variant, tests []string) int {
	if slices.ContainsFunc(tests, regexp.MustCompile(twoProcessors[v.driver]).MatchString) {
		return 2
	}
	return 1
}

// distributeNames puts names into n groups, one name into each group in turn.
func distributeNames(names []string, n int) [][]string {
	groups := make([][]string, n)
	for i, name := range names {
		groups[i%n] = append(groups[i%n], name)
	}
	return groups
}

// TestFabric runs the tests of probes between hosts, each in its own guest: with -short one of them, unless -guest.run chooses
// others.
func TestFabric(t *testing.T) {
	tests := ""
	if testing.Short() && *chosen == "" {
		tests = quickFabric
	}
	v := usualVariant()
	img := prepareImage(t, v.kernel)
	var timeout time.Duration
	if !v.short {
		timeout = 28 * time.Minute // the cases of TestManagementFaultsAreNotTakenForRDMAFaults take 20
	}
	for _, name := range fabric.list(t, tests) {
		t.Run(name, func(t *testing.T) {
			session{variant: v, img: img, suites: []suite{fabric}, tests: []string{name}, cpus: 2, memory: 2048, timeout: timeout}.run(t)
		})
	}
}

// TestNeighbours runs programs of others beside the plugin, each group of them in its own guest.
func TestNeighbours(t *testing.T) {
	if testing.Short() {
		t.Skip("programs of others need more packages of Debian: make test-full PART=neighbours")
	}
	v := usualVariant()
	img, err := prepareImage(t, v.kernel).WithNeighbours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range beside.list(t, "") {
		t.Run(name, func(t *testing.T) {
			session{
				variant: v, img: img, suites: []suite{beside}, tests: []string{name}, cpus: 2, memory: 2048,
				env: []string{"LAB_NEIGHBOURS=" + NeighbourVersions},
			}.run(t)
		})
	}
}

// TestThePackage installs the packages of make package in a guest.
func TestThePackage(t *testing.T) {
	var env []string
	for variable, name := range map[string]string{"RDMA_EVENTS_DEB": "rdma-events", "RDMA_EVENTS_TRACER_DEB": "rdma-events-tracer"} {
		deb, err := onlyPackage(projectDir(t), name)
		requireBuilt(t, prerequisite.Package, "make try-packages", err)
		env = append(env, variable+"="+deb)
	}
	v := usualVariant()
	session{
		variant: v, img: prepareImage(t, v.kernel), suites: []suite{packaged}, tests: packaged.list(t, ""), cpus: 2, env: env,
	}.run(t)
}

// TestTheImage runs the container image of make try-image in a guest.
func TestTheImage(t *testing.T) {
	rootfs := filepath.Join(projectDir(t), "build", "image", "rootfs")
	_, err := os.Stat(filepath.Join(rootfs, "usr/bin/telegraf"))
	requireBuilt(t, prerequisite.Image, "make try-image", err)
	v := usualVariant()
	session{
		variant: v, img: prepareImage(t, v.kernel), suites: []suite{contained}, tests: contained.list(t, ""), cpus: 2,
		env: []string{"RDMA_EVENTS_ROOTFS=" + rootfs},
	}.run(t)
}
