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

	"rdma_events/tests/prerequisite"
)

var (
	chosen = flag.String("guest.run", "", "a regular expression for the tests to run in guests, of those that would")
	whole  = flag.String("guest.whole", "", "a regular expression for the variants of TestVariants that run all of their tests")
	share  = flag.Int("guest.share", 0, "with -guest.whole: one third of those guests alone, 1 to 3; 0 is all of them")
)

var (
	system  = suite{pkg: "./tests/lab/system", guests: 4}
	backend = suite{pkg: "./internal/verbs/native", tests: "^TestNativeBackend"}
	harness = suite{pkg: "./tests/lab/guest", rxeOnly: true}

	packaged  = suite{pkg: "./tests/lab/packaged"}
	contained = suite{pkg: "./tests/lab/contained"}

	// The long ones come first, so that no guest runs alone at the end.
	suites = []suite{
		system,
		backend,
		harness,
		{pkg: "./internal/hotplug", tests: "^TestOnARealKernel", rxeOnly: true, shared: "others"},
		{pkg: "./internal/confine", rxeOnly: true, shared: "others"},
		{pkg: "./tests/grafana", tests: "^TestOnARealDevice", rxeOnly: true, shared: "others"},
	}
)

// Tests that run by themselves, and in no other guest: the soak, and those of a device that is moved to another network
// namespace, which Linux before 7.3 refuses with every driver that works without hardware. With -short those in later
// are left out; they have their turns as long forms.
const (
	soak  = "^TestSoak$"
	moves = "^TestADeviceThatMoves"
	later = "^(TestHardwareIsTriedBesideThePlugin|TestHardwareIsNotTriedBesideQueuePairs)$"
)

// twoProcessors are by driver the tests of completion vectors, of which a soft device has as many as there are processors,
// and of rxe the floods of events, for which one processor takes four times as long.
var twoProcessors = map[string]string{
	"rxe": "^(TestProbeFollowsTheLink|TestNativeBackendKeepsTheContract|TestABurstOf200000|TestAStormIsCountedToTheLastEvent)$",
	"siw": "^(TestOnIWARPTheProbeFlushesWhateverTheLinkDoes|TestNativeBackendKeepsTheContract)$",
}

// checked is what make check runs in its one guest: the harness, a drop, a worker that is killed, a removal.
const checked = "^(TestDeviceAppearsInSysfsAndInIbvDevices|TestInjectedEventsReachAReader|" + essential + ")$"

// essential are the tests of the system that see most of what a kernel, a driver or a library can break.
const essential = "TestFiftyDropsOf40ms|TestAKilledWorkerIsReplaced|TestADeviceIsLetGoAndTakenBack"

// reduced is what a variant runs that does not run whole: the contract of the backend and the essential tests. Another
// library has a test of its own.
const (
	reduced = "^(TestNativeBackendKeepsTheContract|" + essential + ")$"
	library = "^TestThisLibraryServesEventsProbesAndCounters$"
)

// longForms are the tests that leave something out with -short, or are left out.
const longForms = "^(TestAStormIsCountedToTheLastEvent|TestAStoppedTelegrafHoldsUpNoReader|TestReaddedAddressKeepsItsIndex|" +
	"TestAHundredTimesAddedAndDeletedLeavesNothingBehind|TestWhoeverIsKilledLeavesNothingAndTheSuccessorTellsOfTheGap|" +
	"TestHardwareIsTriedBesideThePlugin|TestHardwareIsNotTriedBesideQueuePairs)$"

// variant is what the tests run on, and in which form.
type variant struct {
	name, kernel, driver string
	library              string // the release of rdma-core; "" is this machine's, whichever that is
	short                bool   // without the tests' long forms
}

// usual is what most tests run on; LAB_KERNEL names another kernel.
func usual() variant {
	return variant{name: "release-rxe", kernel: cmp.Or(os.Getenv("LAB_KERNEL"), DefaultKernel), driver: "rxe", short: testing.Short()}
}

// variants are what TestVariants runs. Whole, each kernel and each driver has seen the long forms.
var variants = []variant{
	{name: "release-siw", kernel: DefaultKernel, driver: "siw", short: true},
	{name: "backports-rxe", kernel: BackportsKernel, driver: "rxe", short: true},
	{name: "backports-siw", kernel: BackportsKernel, driver: "siw"},
	{name: "next-library", kernel: DefaultKernel, driver: "rxe", library: NextLibrary, short: true},
}

// TestGuests runs all other tests on the usual variant, in guests with one processor, as many at once as -parallel
// says. Go test's own -run chooses among the suites (-run TestGuests/internal/verbs/native), -guest.run among their tests.
// With -short they leave out their long forms.
func TestGuests(t *testing.T) {
	t.Parallel()
	runSuites(t, usual())
}

// TestLongForms runs the long forms alone, on the usual variant.
func TestLongForms(t *testing.T) {
	if testing.Short() {
		t.Skip("the long forms: make test-full PART=release-rxe")
	}
	v := usual()
	img := image(t, v.kernel)
	for _, name := range system.list(t, longForms) {
		t.Run(name, func(t *testing.T) {
			session{variant: v, img: img, suites: []suite{system}, tests: []string{name}, cpus: 2}.run(t)
		})
	}
}

// TestCheckGuest runs a few tests in one guest: make check.
func TestCheckGuest(t *testing.T) {
	v := usual()
	v.short = true
	both := []suite{harness, system}
	var tests []string
	for _, s := range both {
		tests = append(tests, s.list(t, checked)...)
	}
	session{variant: v, img: image(t, v.kernel), suites: both, tests: tests}.run(t)
}

// TestVariants runs the other kernels, drivers and libraries: -run TestVariants/backports-siw. They run whole where
// -guest.whole matches their name, and reduced elsewhere.
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
		session{variant: v, img: v.image(t), suites: []suite{system}, tests: system.list(t, moves)}.run(t)
	})
}

// image prepares what the variant boots from.
func (v variant) image(t *testing.T) *Image {
	t.Helper()
	img := image(t, v.kernel)
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

// runSuites runs the tests of all suites on a variant in parallel guests, but those that run by themselves.
func runSuites(t *testing.T, v variant) {
	t.Helper()
	img := v.image(t)
	not := []string{soak, moves}
	if v.short {
		not = append(not, later)
	}
	for n, one := range sessions(t, v, not...) {
		if *share > 0 && n%3 != *share-1 {
			continue
		}
		one.img = img
		t.Run(one.title, func(t *testing.T) {
			t.Parallel()
			one.run(t)
		})
	}
}

// sessions divides the suites' tests on a variant between guests.
func sessions(t *testing.T, v variant, not ...string) []session {
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
		for n, hand := range s.hands(tests, v) {
			title := cmp.Or(s.shared, s.name())
			if s.guests > 1 {
				title = fmt.Sprintf("%s/%d", title, n+1)
			}
			all = append(all, session{title: title, variant: v, suites: []suite{s}, tests: hand, cpus: processors(v, hand)})
		}
	}
	return all
}

// hands divides tests between guests. Where several share them, those that need two processors have one guest, which comes
// first: two processors in each of two guests are more than there are.
func (s suite) hands(tests []string, v variant) [][]string {
	if s.guests < 2 || len(tests) < s.guests {
		return dealt(tests, min(len(tests), 1))
	}
	var two, one []string
	for _, test := range tests {
		if processors(v, []string{test}) == 2 {
			two = append(two, test)
		} else {
			one = append(one, test)
		}
	}
	if two == nil {
		return dealt(one, min(s.guests, len(one)))
	}
	return append([][]string{two}, dealt(one, min(s.guests-1, len(one)))...)
}

func processors(v variant, tests []string) int {
	if slices.ContainsFunc(tests, regexp.MustCompile(twoProcessors[v.driver]).MatchString) {
		return 2
	}
	return 1
}

// dealt deals names to n hands, as cards are.
func dealt(names []string, n int) [][]string {
	hands := make([][]string, n)
	for i, name := range names {
		hands[i%n] = append(hands[i%n], name)
	}
	return hands
}

// TestThePackage installs the package that make package has made in a guest.
func TestThePackage(t *testing.T) {
	deb, err := onlyPackage(projectDir(t))
	requireBuilt(t, prerequisite.Package, "make try-packages", err)
	v := usual()
	session{
		variant: v, img: image(t, v.kernel), suites: []suite{packaged}, tests: packaged.list(t, ""), cpus: 2,
		env: []string{"RDMA_EVENTS_DEB=" + deb},
	}.run(t)
}

// TestTheImage runs the container image that make try-image has built in a guest.
func TestTheImage(t *testing.T) {
	rootfs := filepath.Join(projectDir(t), "build", "image", "rootfs")
	_, err := os.Stat(filepath.Join(rootfs, "usr/bin/telegraf"))
	requireBuilt(t, prerequisite.Image, "make try-image", err)
	v := usual()
	session{
		variant: v, img: image(t, v.kernel), suites: []suite{contained}, tests: contained.list(t, ""), cpus: 2,
		env: []string{"RDMA_EVENTS_ROOTFS=" + rootfs},
	}.run(t)
}
