package docs

// Place says where a command of the documents is run, if not here as it stands.
type Place struct {
	Command string // as in the document
	Run     string // what is run here in its stead
	// Exits are the statuses besides 0 that are right here, when the command says
	// what stands in Prints.
	Exits  []int
	Prints string
	// Where is a file of the project: a test that does the same, the step of CI
	// that runs the command, or what the command has written. Says stands in it.
	Where, Says string
}

// Places are the commands that need more than running them here.
func Places() []Place {
	const (
		ci       = ".ci/run"
		makefile = "Makefile"
		race     = "go test -race ./..."
	)
	doctor, noDevice := []int{1, 2}, []int{1} // a host may have something to mend, or no device
	return []Place{
		// What is run here, but for its length or its place.
		{Command: "make", Run: "make help"},
		{Command: "make run", Run: "scripts/run.sh 2s"},
		{Command: "rdma-events doctor", Exits: doctor, Prints: " WARN, "},
		{Command: "rdma-events doctor --json", Exits: doctor, Prints: `"checks": [`},
		{Command: "prlimit --memlock=65536:65536 rdma-events doctor", Exits: doctor, Prints: " WARN, "},
		{Command: "rdma-events watch", Run: "rdma-events watch -for 1s"},
		{Command: "rdma-events watch -probe", Run: "rdma-events watch -probe -for 1s"},
		{Command: "rdma-events watch -device mlx5_0", Run: "rdma-events watch -device mlx5_0 -for 1s"},
		{Command: "rdma-events check -config FILE", Run: "rdma-events check -config sample.conf"},
		{Command: "lsof /dev/infiniband/*", Exits: noDevice, Prints: "No such file"},
		{Command: "rdma link", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma dev set name", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma system", Exits: noDevice, Prints: "NETLINK_RDMA"},

		// What takes longer, and is run by CI.
		{Command: "make test", Where: ci, Says: "make test"},
		{Command: "make lint", Where: ci, Says: "make lint"},
		{Command: "make build", Where: makefile, Says: "test: setup-test build"},
		{Command: "go test -race ./internal/...", Where: makefile, Says: race},
		{Command: "go test -race -run Contract ./internal/verbs/...", Where: makefile, Says: race},
		{Command: "go test ./tests/native", Where: makefile, Says: race},
		{Command: "go test ./tests/e2e", Where: makefile, Says: race},
		{Command: "go test ./tests/grafana", Where: makefile, Says: race},
		{Command: "go test ./tests/docs", Where: makefile, Says: race},
		{Command: "go test ./assets/telegraf", Where: makefile, Says: race},
		{Command: "go test ./tests/e2e -update", Where: "tests/e2e/golden_test.go", Says: `flag.Bool("update"`},
		{
			Command: "go test -run '^$' -fuzz FuzzCountersKeepTheirInvariants -fuzztime 10s ./internal/portstate",
			Where:   "internal/portstate/fuzz_test.go", Says: "func FuzzCountersKeepTheirInvariants(",
		},
		{Command: "go generate ./assets/gen", Where: "assets/gen/main_test.go", Says: "func TestCommittedFilesAreWhatTheTableOfMetricsGives("},
		{Command: "make generate", Where: "plugins/inputs/rdma_events/metricsdoc/main_test.go", Says: "func TestTheCommittedDocumentationIsCurrent("},
		{
			Command: "go test -tags lab -short -v -run TestGuest/tests/lab/guest ./tests/lab",
			Where:   makefile, Says: "go test -tags lab -short -timeout 30m -v ./tests/lab",
		},
		{
			Command: "RDMA_EVENTS_LAB_RUN=TestDeviceAppears go test -tags lab -short -v -run TestGuest/tests/lab/guest ./tests/lab",
			Where:   "tests/lab/lab_test.go", Says: "RDMA_EVENTS_LAB_RUN",
		},
		{
			Command: "RDMA_EVENTS_LAB_RUN=TestNativeBackendReadsEveryTypeOfEvent go test -tags lab ./tests/lab -run 'Guest.*/internal/verbs' -v",
			Where:   "internal/verbs/coverage_test.go", Says: "func TestTheDocumentOnEventCoverageIsUpToDate(",
		},

		// What is run before a release, or has written what is committed.
		{Command: "make test-full", Where: "tests/lab/lab_test.go", Says: "func TestGuestMatrix("},
		{Command: "make soak FOR=1h", Where: "tests/lab/soak_test.go", Says: "func TestSoak("},
		{Command: "make test-schema", Where: "assets/targets.mk", Says: "test-full: test-schema"},
		{Command: "make package", Where: "packaging/targets.mk", Says: "try-packages: setup-test package"},
		{Command: "make try-packages", Where: "packaging/targets.mk", Says: "$(MAKE) try-packages"},
		{Command: "make try-image", Where: "tests/lab/lab_test.go", Says: "func TestTheImage("},
		{Command: "make image", Where: "scripts/try-image.sh", Says: "-f packaging/container/Dockerfile"},
		{Command: "make stack", Where: "tests/stack/stack_test.go", Says: "func TestCtrlCStopsAllOfItAndLeavesNothingBehind("},
		{Command: "make scale", Where: "tests/scale/scale_test.go", Says: "func TestASmallFleetIsFilledInTwoRunsAndMeasured("},
		{Command: "make bench", Where: "docs/benchmarks.md", Says: "Written by `make bench`"},
		{Command: "make preview", Where: "docs/pictures/fleet-light.png", Says: "PNG"},
		{Command: "make lab", Where: "tests/lab/shell_test.go", Says: "func TestAPersonGetsAPromptBesideADevice("},

		// What only a device, a server or another distribution can do.
		{Command: "rdma link delete", Where: "tests/lab/guest/device.go", Says: "func DeleteLink("},
		{Command: "rdma system set netns exclusive", Where: "tests/lab/system/admin_test.go", Says: `"system", "set", "netns", "exclusive"`},
		{Command: "rdma system set netns shared", Where: "tests/lab/system/admin_test.go", Says: `"system", "set", "netns", "shared"`},
		{Command: "sudo rdma system set netns shared", Where: "tests/lab/system/admin_test.go", Says: `"system", "set", "netns", "shared"`},
		{Command: "ibv_asyncwatch -d mlx5_0", Where: "tests/lab/guest/harness_test.go", Says: `"ibv_asyncwatch", "-d", device`},
		{
			Command: "sudo apt-get install -y libibverbs1 ibverbs-providers",
			Where:   "packaging/container/Dockerfile", Says: "ca-certificates libibverbs1 ibverbs-providers",
		},
		{
			Command: "curl -XPOST 'http://localhost:8086/query' --data-urlencode 'q@assets/influxdb/downsampling.influxql'",
			Where:   "assets/influxdb/influxdb_test.go", Says: "func TestTheServerRunsThem(",
		},
		{Command: "kustomize build packaging/kubernetes/example", Where: "tests/kubernetes/schema_test.go", Says: `"packaging/kubernetes/example"`},
	}
}
