package reliability

// Fault is a row of the table: something that goes wrong, and the test that has
// seen what the row says.
type Fault struct {
	What     string
	Happens  string
	Reported string
	Package  string // directory below the module's
	Test     string
}

// Section is a group of faults.
type Section struct {
	Title  string
	Faults []Fault
}

// The directories of tests.
const (
	inLab    = "tests/lab/system"
	onHost   = "tests/e2e"
	standIn  = "tests/native"
	workers  = "internal/worker"
	verbs    = "internal/verbs"
	confines = "internal/confine"
	hotplugs = "internal/hotplug"
	monitors = "internal/monitor"
)

// Faults returns the whole table. What a misbehaving libibverbs comes to is in
// a document of its own.
func Faults() []Section {
	return []Section{
		{"Processes that die", deaths()},
		{"Limits of the host", limits()},
		{"Devices that go", removals()},
		{"Links, events and time", happenings()},
		{"Nobody reads", backPressure()},
		{"Libraries and drivers", libraries()},
		{"Input that nobody expects", inputs()},
	}
}

func backPressure() []Fault {
	return []Fault{
		{"a storm of a million events", "each is counted; memory stays below 64 MiB",
			"points whose `count` adds up to what was injected", inLab, "TestAStormIsCountedToTheLastEvent"},
		{"Telegraf is stopped with SIGSTOP in a storm, 30 s in the long form",
			"events are read and acknowledged all the while; all is counted when it goes on", "merged points",
			inLab, "TestAStoppedTelegrafHoldsUpNoReader"},
		{"the plugin itself is stopped with SIGSTOP", "its worker reads and acknowledges on; all is counted when it goes on",
			"as ever", inLab, "TestAStoppedPluginHoldsUpNoReader"},
		{"standard output is closed in a storm", "the plugin ends with its workers", "nothing: nobody reads any more",
			inLab, "TestAClosedStdoutEndsThePluginInAStorm"},
		{"a standard error that nobody reads", "nothing stalls", "what fits into the pipe",
			inLab, "TestAStderrThatNobodyReadsStallsNothing"},
		{"one fault after the other, ten minutes or longer (make soak)",
			"no growth of memory, descriptors, goroutines or processes", "as each fault", inLab, "TestSoak"},
	}
}

func deaths() []Fault {
	return []Fault{
		{"kill -9 of a worker", "another one, after 250 ms, each further time after twice as long; counters go on",
			"reason `crashed`, `worker_restarts`; a change of the link in the gap with witness `reopen`",
			inLab, "TestAKilledWorkerIsReplaced"},
		{"kill -9 of a worker amid a storm of events", "what it had read and not told is counted from the ledger",
			"events, and `released` where they were not acknowledged", inLab, "TestWhatADeadWorkerHasReadIsCounted"},
		{"kill -9 of worker, plugin and Telegraf by a drawn schedule, simulated devices",
			"no process, memfd, socket or directory is left; the successor is there in time; no counter of who lived falls",
			"as above", onHost, "TestWhoeverIsKilledLeavesNothingAndComesBackInTime"},
		{"the same on a real kernel, while the link changes", "the same", "the state of the link, by who comes next",
			inLab, "TestWhoeverIsKilledLeavesNothingAndTheSuccessorTellsOfTheGap"},
		{"kill -9 of the plugin", "its workers end; Telegraf starts another", "Telegraf's own line",
			onHost, "TestWorkersDoNotOutliveAKilledPlugin"},
		{"kill -9 of Telegraf", "plugin and workers end within a second", "nothing: nobody reads any more",
			inLab, "TestNothingOutlivesAKilledTelegraf"},
		{"kill -9 of one of two instances on a host", "the other goes on", "nothing by the other",
			onHost, "TestAKilledInstanceDisturbsNoOtherOnItsHost"},
		{"both programs are replaced under a running plugin", "it goes on in its version, restarted workers too, until it is restarted",
			"nothing", onHost, "TestAPluginThatWasUpgradedGoesOnInItsVersionUntilItsRestart"},
		{"a worker is stopped for ever", "it is killed and replaced; other devices do not notice", "reason `stuck`",
			inLab, "TestOnIWARPAndRoCEAtOnceAStoppedWorkerDisturbsNoOther"},
	}
}

func limits() []Fault {
	return []Fault{
		{"RLIMIT_NOFILE 64, four devices", "enough, restarts of workers included", "nothing",
			onHost, "TestSixtyFourDescriptorsAreEnoughForFourDevices"},
		{"RLIMIT_NOFILE 64, twenty devices", "devices beyond it are tried every 30 s; the others go on",
			"reason `limit`, a line that names LimitNOFILE", onHost, "TestDevicesBeyondTheDescriptorsAreToldOfAndTheOthersGoOn"},
		{"a fork is refused, or a worker's thread", "it is tried again every 30 s; the other devices go on",
			"reason `limit`, a line that names TasksMax and LimitNPROC", onHost, "TestARefusedForkOrThreadIsToldAndDisturbsNoOtherDevice"},
		{"nobody reads stdout", "points merge, nothing is lost; the reader does not wait", "`merged_points`, `skipped_intervals`",
			onHost, "TestAStoppedTelegrafLosesNoCount"},
		{"a node that may not be opened", "it is tried again; the other devices go on", "reason `no_permission`, a line that names the node",
			inLab, "TestADeviceNodeWithoutPermissionSilencesNoOther"},
		{"a user without capabilities who may lock 64 KiB", "all works", "nothing", inLab, "TestAProbeNeedsNoCapability"},
	}
}

func removals() []Fault {
	return []Fault{
		{"`rdma link delete` and `add`", "the device is let go at once and taken back", "`removals`, `opens`, reason `removed`",
			inLab, "TestADeviceIsLetGoAndTakenBack"},
		{"a hundred times of it", "nothing is left; no command is delayed by more than a second", "each removal",
			inLab, "TestAHundredTimesAddedAndDeletedLeavesNothingBehind"},
		{"`rdma dev set name`", "the device goes on under its new name", "reason `renamed` on the old series",
			inLab, "TestARenamedDeviceGoesOnUnderItsNewName"},
		{"the netdev is deleted under the device", "as with `rdma link delete`", "reason `removed`",
			inLab, "TestADeviceGoesWithItsNetdevAndComesBack"},
		{"`rmmod` of the driver after its links, and loaded again", "as with `rdma link delete`", "reason `removed`",
			inLab, "TestTheDriverIsUnloadedAfterItsLinksAndLoadedAgain"},
		{"a move to another network namespace and back, which Linux 7.3 does with soft RoCE",
			"as with `rdma link delete` and `add`", "reason `removed`", inLab,
			"TestADeviceThatMovesToAnotherNamespaceIsLetGoAndTakenBack"},
		{"a move to another network namespace that the kernel refuses", "nothing", "nothing",
			inLab, "TestARefusedMoveToAnotherNamespaceDisturbsNothing"},
		{"a worker dies right before its device goes", "nobody tries to open it until it is back", "reason `removed`, `worker_state` stopped",
			inLab, "TestADeviceThatGoesWithItsWorkerIsNotTriedInVain"},
		{"a device is replaced, and its worker has the successor open before that is found", "after 10 s it is opened anew",
			"a removal", monitors, "TestASuccessorThatItsWorkerOpenedBeforeItWasFoundIsOpenedAgain"},
		{"a device closes while a probe of it is being made", "the probe is destroyed first", "nothing",
			verbs, "TestAProbeThatIsMadeWhileItsDeviceClosesIsDestroyed"},
		{"there is no device, and one comes later", "it is opened", "reason `no_device`", inLab, "TestWithoutADeviceThePluginWaitsForOne"},
		{"the kernel drops uevents", "devices are looked for anew", "nothing: nothing is lost",
			hotplugs, "TestOnARealKernelAnOverrunOfUeventsIsReported"},
	}
}

func happenings() []Fault {
	return []Fault{
		{"each type of event on a real kernel", "it is read and acknowledged", "under its name ([event coverage](event-coverage.md))",
			verbs, "TestNativeBackendReadsEveryTypeOfEvent"},
		{"200,000 events at once", "all are counted", "merged points, whose `count` adds up", inLab, "TestABurstOf200000"},
		{"fifty drops of 40 ms", "each is one flap", "`rdma_port_change` with how long it lasted", inLab, "TestFiftyDropsOf40ms"},
		{"a drop every 20 ms", "each is counted, as transition or as missed", "`flaps`, `missed_transitions`", inLab, "TestADropEvery20ms"},
		{"the wall clock is set an hour back and ahead", "no duration and no rate notices; Telegraf asks no input for intervals until the " +
			"clock has caught up, unless its `round_interval` is false", "time stamps follow; a line when it was set back",
			inLab, "TestAWallClockThatIsSetDisturbsNoDurationAndNoRate"},
	}
}

func libraries() []Fault {
	return []Fault{
		{"a crash, a hang or an error in any call of libibverbs", "one worker is touched", "[native faults](native-faults.md)",
			standIn, "TestNativeFaults"},
		{"a library that attacks the host", "it cannot", "[security](security.md)", standIn, "TestAHostileLibraryIsConfined"},
		{"a kernel without Landlock", "all works, less confined", "one line", standIn, "TestAKernelWithoutLandlockIsSaidOnce"},
		{"no libibverbs", "it is tried again every 30 s", "reason `no_library`, one line", inLab, "TestWithoutTheLibraryOneLineSaysSo"},
		{"a worker that cannot be confined", "it refuses to run", "a line that says why", confines, "TestASecondStartThatIsNotConfinedIsRefused"},
		{"a file that is no worker", "it is tried again every 30 s", "a line that names worker_path", workers, "TestAFileThatCannotRunIsSaidInOneLine"},
	}
}

func inputs() []Fault {
	return []Fault{
		{"a bad configuration or scenario", "the start ends", "one line: key, value, what is allowed", onHost, "TestBadInputIsOneClearLine"},
		{"any bytes as configuration", "the same", "one line", "plugins/inputs/rdma_events", "FuzzParseNeverPanicsAndFailsInOneLine"},
		{"any bytes as scenario", "the same", "one line", "internal/verbs/sim", "FuzzParse"},
		{"any bytes as a uevent", "they are left out", "nothing", hotplugs, "FuzzParseUevent"},
		{"any bytes from a worker", "what is not understood is left out", "nothing", workers, "FuzzNoBytesMakeTheConversionPanic"},
		{"any bytes in the ledger", "they are read, within its bounds", "nothing", "internal/ledger", "FuzzAReaderSurvivesAnyBytes"},
		{"any order of events and queries", "states as the rules say", "as the rules say", "internal/portstate", "FuzzTheMachineDoesWhatItsModelDoes"},
	}
}
