package docs

// Place states how a command of the documents is run, if the test does not run
// it as it is.
type Place struct {
	Command string // as in the document
	Run     string // the command that the test runs instead
	// Exits are the exit statuses besides 0 that are correct here, if the output
	// contains Prints.
	Exits  []int
	Prints string
	// Where is the file that runs the command: a file of CI or a file of tests.
	// Says is a text in that file: the line of the step, or the declaration of the
	// test that does the same as the command.
	Where, Says string
	// NotRun is why no test runs the command.
	NotRun string
}

// steps are the files whose commands CI runs.
var steps = []string{".ci/run", "Makefile", "packaging/targets.mk", "scripts/test-push.sh"}

// Places returns the commands that the test does not run as they are, or that
// may end with another status than 0.
func Places() []Place {
	const (
		ci       = ".ci/run"
		makefile = "Makefile"
		race     = "go test -race -vet=off $(UNIT)"
		programs = "go test -short -vet=off -p 4 -parallel 8 -skip '$(SLOW)' $(PROGRAMS)"
		guests   = "$(LAB) -short -skip '^(TestCheckGuest|TestVariants)$$'"
		admin    = "tests/lab/system/admin_test.go"
		move     = "func TestARefusedMoveToAnotherNamespaceDisturbsNothing("
	)
	doctor, noDevice := []int{1, 2}, []int{1} // a host may have something to fix, or no device
	const packaged, tracer = "tests/lab/packaged/tracer_test.go", "func TestTheTracersPackageServesTelegrafsUser("
	const release, noKubelet = "before a release", "it takes a kubelet"
	const cluster, documented = "tests/kubernetes/cluster/cluster_test.go", "func TestClusterTakesTheCommandsOfTheDocuments("
	const schema, copied = "tests/kubernetes/schema_test.go", "func TestSchemaOfACopiedExampleIsTheExamples("
	const releases, replaced = "tests/lab/system/release_test.go", "func TestDriverIsReplacedDuringARelease("
	const noSystemd, noRPM = "there is no systemd", "it takes a system of packages in rpm"
	return []Place{
		// What no test runs.
		{Command: "make bench", NotRun: "no test has the machine for itself"},
		{Command: "make preview", NotRun: "no test looks at pictures"},
		{Command: "make package", NotRun: "make release runs it, and tries the packages"},
		{Command: "make try-packages", NotRun: release},
		{Command: "make try-packages try-image", NotRun: release},
		{Command: "make test-slow", Where: "scripts/test-push.sh", Says: "make test-slow"},
		{Command: "make release", NotRun: release},
		{Command: "make release KEY=~/.ssh/id_ed25519", NotRun: release},
		{Command: "go install", Where: "packaging/goinstall_test.go", Says: "func TestProgramsAreInstalledByGoFromAProxy("},
		{Command: "make reproducible", NotRun: release},
		{Command: "make image", NotRun: "it takes Docker"},
		{Command: "make test-full PART=list", Run: "scripts/test-full.sh list"},
		{Command: "make test-full PART=soak", NotRun: "it takes 12 minutes"},
		{Command: "make test-full PART=days", NotRun: "it takes 15 minutes"},
		{Command: "make test-full PART=pvrdma", NotRun: "it takes ten minutes"},
		{Command: "make test-full PART=neighbours", NotRun: "it takes half an hour"},
		{Command: "make test-cluster", NotRun: "it takes ten minutes"},
		{Command: "make test-loki", NotRun: "it builds Loki, which takes six minutes"},
		{Command: "kubectl label node NODE feature.node.kubernetes.io/custom-rdma.available=true", Where: cluster, Says: documented},
		{Command: "kubectl apply -k packaging/kubernetes/my-cluster", Where: cluster, Says: "func TestClusterRunsThePodsOfEachKustomization("},
		{
			Command: "kubectl get nodes -l feature.node.kubernetes.io/custom-rdma.available=true --no-headers \\\n" +
				`  -o custom-columns='N:.metadata.name,G:.metadata.labels.topology\.kubernetes\.io/rack,A:.status.addresses[?(@.type=="InternalIP")].address' >peers`,
			Where: cluster, Says: documented,
		},
		{Command: "kubectl get resourceslices -o yaml", NotRun: "it takes a driver of DRA"},
		{Command: "kubectl -n rdma-events exec POD -- rdma-events forget mlx5_1:2", NotRun: noKubelet},
		{Command: "kubectl -n rdma-events exec POD -- rdma-events events -since 24h", NotRun: noKubelet},
		{
			Command: "kubectl -n rdma-events exec POD -- rdma-events report -config /etc/telegraf/rdma_events.conf -out /tmp/report.tar.gz",
			NotRun:  noKubelet,
		},
		{Command: "kubectl -n rdma-events cp POD:/tmp/report.tar.gz report.tar.gz", NotRun: noKubelet},
		{Command: "cp -r packaging/kubernetes/example packaging/kubernetes/my-cluster", Where: schema, Says: copied},
		{
			Command: "kubectl -n rdma-events create configmap rdma-events-peers --from-file=peers --dry-run=client -o yaml | kubectl apply -f -",
			Where:   cluster, Says: documented,
		},
		{Command: `kubectl get node NODE -o jsonpath='{.status.conditions[?(@.type=="RDMAProblem")].message}'`, Where: cluster, Says: documented},
		{Command: "rdma-events release", Where: releases, Says: replaced},
		{Command: "sudo rdma-events release", Where: releases, Says: replaced},
		{Command: "rdma-events resume", Where: releases, Says: replaced},
		{Command: "rdma-events forget mlx5_1:2", Where: "cmd/rdma-events/forget_test.go", Says: "func TestForgetRemovesAPortOrADevice("},
		{Command: "rdma-events forget mlx5_1", Where: "cmd/rdma-events/forget_test.go", Says: "func TestForgetRemovesAPortOrADevice("},
		{Command: "sudo rdma-events resume", Where: releases, Says: replaced},
		{Command: "rdma-events resume -device mlx5_0", Where: "tests/e2e/release_test.go", Says: "func TestReleasedDeviceIsClosedAndResumed("},
		{Command: "rdma-events release -dir /run/rdma_events-status", Where: releases, Says: replaced},
		{Command: "modprobe -r", NotRun: "the guest's tests use rmmod"},
		{Command: "modprobe -r mlx5_ib", Where: releases, Says: "func TestModprobeReleasesBeforeItUnloads("},
		{Command: "sudo apt-get install libibverbs1 ibverbs-providers", NotRun: "this host has them"},
		{Command: "sudo ip -all netns exec rdma dev", NotRun: "it enters all network namespaces of a host"},
		{Command: "grep . /sys/fs/cgroup/system.slice/telegraf.service/rdma.max", NotRun: "Telegraf is no service here"},
		{
			Command: "sudo -u telegraf rdma-events doctor -config /etc/telegraf/telegraf.d/rdma_events.conf",
			NotRun:  "there is no such user",
		},
		{
			Command: "sudo -u telegraf rdma-events fabric -config /etc/telegraf/rdma_events.conf",
			NotRun:  "there is no such user",
		},
		{Command: "sudo install -m 0640 -g telegraf fabric.key /etc/rdma-events/fabric.key", NotRun: "there is no such group"},
		{Command: "rdma-events fabric", Run: "rdma-events fabric -demo -for 2s", Exits: []int{1, 2, 70}, Prints: "gpu02"},
		{Command: "rdma-events fabric -demo", Run: "rdma-events fabric -demo -for 2s", Exits: []int{1, 2, 70}, Prints: "gpu02"},
		{Command: "rdma-events watch -fabric", Run: "rdma-events watch -fabric -demo -for 1s"},
		{Command: "rdma-events watch -fabric -demo", Run: "rdma-events watch -fabric -demo -for 1s"},
		{Command: "sudo -u telegraf rdma-events doctor -applications", Where: packaged, Says: tracer},
		{Command: "sudo -u telegraf rdma-events-tracer -try", Where: packaged, Says: tracer},
		{Command: "sudo apt install ./dist/rdma-events-tracer_*_amd64.deb", Where: packaged, Says: tracer},
		{
			Command: "sudo sh -c 'echo cap_bpf,cap_perfmon,cap_sys_admin=ep >/etc/rdma-events/tracer.caps && rdma-events-tracer-caps'",
			Where:   packaged, Says: tracer,
		},
		{Command: "sudo install -m 0750 -g telegraf build/rdma-events-tracer /usr/local/bin/", NotRun: "there is no such group"},
		{Command: "sudo setcap cap_bpf,cap_perfmon=ep /usr/local/bin/rdma-events-tracer", NotRun: "it has to follow the command before"},
		{Command: "sudo systemctl restart grafana-server", NotRun: "there is no Grafana"},
		{Command: "sudo systemctl restart telegraf", NotRun: noSystemd},
		{Command: "sudo systemctl daemon-reload", NotRun: noSystemd},
		{Command: "sudo systemctl enable rdma-ready.service", NotRun: noSystemd},
		{Command: "sudo apt install ./dist/rdma-events_*_amd64.deb", NotRun: "make try-packages installs it, in a clean root"},
		{Command: "sudo dnf install ./dist/rdma-events-[0-9]*.x86_64.rpm", NotRun: noRPM},
		{Command: "sudo zypper install --allow-unsigned-rpm ./dist/rdma-events-[0-9]*.x86_64.rpm", NotRun: noRPM},
		{
			Command: "sudo -u telegraf telegraf --config /etc/telegraf/telegraf.d/rdma_events.conf --test --test-wait 4",
			Where:   "tests/docs/telegraf_test.go", Says: "func TestTelegrafsTestPrintsPorts(",
		},

		// These run here, shortened or with other exit statuses; -hardware runs in a test.
		{Command: "make", Run: "make help"},
		{Command: "make run", Run: "scripts/run.sh 2s"},
		{Command: "rdma-events doctor", Exits: doctor, Prints: " WARN, "},
		{Command: "rdma-events check -learn", Exits: noDevice, Prints: "no RDMA device"},
		{Command: "build/rdma-events doctor", Exits: doctor, Prints: " WARN, "},
		{Command: "build/rdma-events watch -demo -probe", Run: "build/rdma-events watch -demo -probe -for 1s"},
		{Command: "build/rdma-events watch -probe", Run: "build/rdma-events watch -probe -for 1s"},
		{Command: "rdma-events doctor -json", Exits: doctor, Prints: `"checks": [`},
		// A plugin may run on this host, and have something to report.
		{Command: "sudo chmod 0755 /usr/local/sbin/rdma-epilog", Where: "tests/docs/hpc_test.go", Says: "func TestSlurmsEpilogKeepsWhatBrokeAndNeverFails("},
		{Command: "sudo /usr/local/sbin/rdma-health", Exits: noDevice, Prints: "there is no scontrol in"},
		{Command: "rdma-events health", Exits: []int{1, 2, 70}},
		{Command: "rdma-events health -format npd", Exits: []int{1, 2}},
		{Command: "rdma-events health -format npd-warning", Exits: []int{1, 2}},
		// The recorder's directory of this host, if it has one, is root's and Telegraf's.
		{Command: "rdma-events events", Exits: []int{1, 2}},
		{Command: "sudo rdma-events events -since 24h", Exits: []int{1, 2}},
		{Command: "sudo rdma-events events -device mlx5_0", Exits: []int{1, 2}},
		{
			Command: "sudo rdma-events events -device mlx5_0 -follow",
			Where:   "tests/e2e/events_test.go", Says: "func TestEventsAreFollowed(",
		},
		{Command: "rdma-events report", Exits: noDevice, Prints: "is written"},
		{Command: "sudo rdma-events report -config /etc/telegraf/rdma_events.conf", Exits: noDevice, Prints: "is written"},
		{Command: "rdma-events watch -json", Run: "rdma-events watch -json -for 1s"},
		{Command: "systemctl cat telegraf", NotRun: noSystemd},
		{Command: "rdma-events status", Exits: []int{1, 2, 70}},
		{Command: "rdma-events status -json", Exits: []int{1, 2, 70}},
		{Command: "prlimit --memlock=65536:65536 rdma-events doctor", Exits: doctor, Prints: " WARN, "},
		{Command: "rdma-events watch", Run: "rdma-events watch -for 1s"},
		{Command: "rdma-events watch -apps", Run: "rdma-events watch -apps -for 1s"},
		{Command: "rdma-events watch -device mlx5_0", Run: "rdma-events watch -device mlx5_0 -for 1s"},
		{Command: "rdma-events check -config FILE", Run: "rdma-events check -config sample.conf"},
		{Command: "sudo lsof /dev/infiniband/*", Exits: noDevice, Prints: "No such file"},
		{
			Command: "rdma-events doctor -hardware -device mlx5_0",
			Where:   "tests/lab/system/hardware_test.go", Says: "func TestHardwareIsNotTriedBesideQueuePairs(",
		},
		{
			Command: "rdma-events doctor -hardware",
			Where:   "tests/e2e/hardware_test.go", Says: "func TestHardwareFileIsAsDocumented(",
		},
		{Command: "rdma link", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma monitor", NotRun: "it shows what happens until it is interrupted"},
		{Command: "rdma dev set name", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma resource show", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma resource show qp", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma statistic", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma system", Exits: noDevice, Prints: "NETLINK_RDMA"},
		{Command: "rdma -d dev", Exits: noDevice, Prints: "NETLINK_RDMA"},

		// These take longer. CI runs them.
		{Command: "make test", Where: ci, Says: "make test"},
		{Command: "make lint", Where: ci, Says: "make lint"},
		{Command: "make build", Where: makefile, Says: "TESTED := build"},
		{Command: "go test -race ./internal/...", Where: makefile, Says: race},
		{Command: "go test -race -run Contract ./internal/simulated/... ./internal/device/native", Where: makefile, Says: race},
		{Command: "go test ./tests/e2e", Where: makefile, Says: programs},
		{Command: "go test ./tests/docs", Where: makefile, Says: programs},
		{Command: "go test ./assets/telegraf", Where: makefile, Says: programs},
		{Command: "make check", Where: "tests/lab/names_test.go", Says: "func TestChosenTestsExist("},
		{Command: "make test-push", Where: ci, Says: "make test-push"},
		{Command: "make test-full", Where: "packaging/targets.mk", Says: "scripts/test-full.sh passed"},
		{Command: "make test-schema", Where: ci, Says: "make test-schema"},
		{
			Command: "go test -run '^$' -fuzz FuzzCountersKeepTheirInvariants -fuzztime 10s ./internal/device/portstate",
			Where:   "scripts/test-push.sh", Says: "scripts/fuzz.sh 5s",
		},
		{
			Command: "go test -tags lab -short -v -run '^TestGuests$/tests/lab/guest' ./tests/lab",
			Where:   makefile, Says: guests,
		},
		{
			Command: "go test -tags lab -short -v -run '^TestGuests$/tests/lab/guest' ./tests/lab -guest.run TestDeviceAppears",
			Where:   makefile, Says: guests,
		},
		{Command: "make lab", Where: "tests/lab/shell_test.go", Says: "func TestAPersonGetsAPromptBesideADevice("},

		// These run in a shorter form, or with less to do.
		{Command: "make generate", Run: "go generate ./assets/... ./plugins/... && go run ./packaging/licences docs/reference/licences.md"},
		{Command: "go test ./tests/e2e -update", Run: "go test ./tests/e2e -run '^TestGolden/crash$' -update"},
		{Command: "make stack", Run: "go build -o build/stack ./tests/stack/cmd/stack && timeout -s INT --preserve-status 8s build/stack"},
		{Command: "make scale", Where: "tests/scale/scale_test.go", Says: "func TestASmallFleetIsFilledInTwoRunsAndMeasured("},

		// These need a device, a server or a guest.
		{Command: "rdma link delete", Where: admin, Says: "func TestTheDriverIsUnloadedAfterItsLinksAndLoadedAgain("},
		{Command: "rdma system set netns exclusive", Where: admin, Says: move},
		{Command: "rdma system set netns shared", Where: admin, Says: move},
		{Command: "ibv_asyncwatch -d mlx5_0", Where: "tests/lab/guest/harness_test.go", Says: "func TestInjectedEventsReachAReader("},
		{
			Command: "curl -XPOST 'http://localhost:8086/query' --data-urlencode 'q@assets/influxdb/downsampling.influxql'",
			Where:   "assets/influxdb/influxdb_test.go", Says: "func TestTheServerRunsThem(",
		},
		{
			Command: "curl -XPOST 'http://localhost:8086/query' --data-urlencode 'q@shared/influxdb/downsampling.influxql'",
			Where:   "tests/grafana/shared_test.go", Says: "func TestSharedDatabaseIsReadInItsPolicy(",
		},
		{
			Command: "curl -G http://localhost:8086/query -H 'Accept: application/csv' " +
				"--data-urlencode 'q=SELECT last(state_name) FROM rdma.raw.rdma_port GROUP BY device, port'",
			NotRun: "it takes an InfluxDB to which Telegraf has written",
		},
		{
			Command: "curl -s http://localhost:9273/metrics | grep rdma_port_up",
			Where:   "assets/prometheus/prometheus_test.go", Says: "func TestAHealthyDeviceHasTypedFamiliesAndFewSeries(",
		},
		{
			Command: "kustomize build packaging/kubernetes/my-cluster",
			Where:   schema, Says: copied,
		},
	}
}
