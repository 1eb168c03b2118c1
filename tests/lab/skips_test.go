//go:build lab

package lab

import "regexp"

// allowedSkips is the complete list of tests that may skip in a guest. Any other skip is a failure.
var allowedSkips = []struct {
	driver string
	tests  string // a regular expression for the test's name
	reason string
}{
	{"siw", `^TestNativeBackendKeepsTheContract/probes/rc_write_`,
		"a queue pair of siw is connected by its connection manager only (docs/compatibility.md)"},
	{"siw", `^TestNativeBackendKeepsTheContract/(events/a_new_address_is_a_gid_change|ports/a_new_address_is_in_the_GID_table)$`,
		"the one GID of an iWARP port is made of its MAC address, and siw reports no change (docs/compatibility.md)"},
	{"siw", `^TestOneAddressIsOneGIDChange$`, "as above"},
	{"siw", `^(TestNativeBackendKeepsTheContract/fabrics/|TestTheFabricKeepsItsContractOnSoftRoCE$)`,
		"iWARP never has a Fabric: TestNativeBackendOnSIWNeverHasAFabric"},
	{"rxe", `^TestNativeBackendKeepsTheContract/fabrics/`, "one device has no peer: TestTheFabricKeepsItsContractOnSoftRoCE has two"},
	{"siw", `^(TestReaddedAddress|TestAnotherAddress|TestChangedMACAddress|TestMovedGID)`, "iWARP has no datagrams, and its GID no address"},
	{"siw", `^(TestALinkWithoutCarrier|TestAddressesThatCome|TestAChangedMACAddress|TestAVLAN)`, "siw follows no carrier, and its GID no address"},
	{"siw", `^(TestALinkThatIsSetDownIsExplained|TestStatisticsOfTheInterfaceAreReadWithoutRights)$`,
		"Linux 6.1 names no netdev in the GID table of an iWARP port"},
	{"siw", `^(TestEventsAreReadWhileTheRTNLLockIsHeld|TestALinkDeletionWaitsForNoSnapshot|TestTheReportOfABadDay)$`,
		"they begin with a link that has lost its carrier"},
	{"siw", `^(TestObjectsAre|TestWhoHoldsWhatIsAsRDMAResourceShowsIt$)`,
		"a queue pair of siw is connected by its connection manager only (docs/compatibility.md)"},
	{"siw", `^(TestADeviceCausesEventsByItself|TestEventsThatADeviceCausesAreThoseOfTheApplication)$`, "as above"},
	{"siw", `^TestTheKernelKeepsTheContractWith[A-Za-z]*/ends/(a_process_learns_of_the_removal|a_hang_is_seen_after_its_device)`, softDevicesStay},
	{"rxe", `^TestTheKernelKeepsTheContractWith[A-Za-z]*/ends/(a_process_learns_of_the_removal|a_hang_is_seen_after_its_device)`, softDevicesStay},
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
