# rdma_events. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A guest of the lab sees this checkout, except below directories where its kernel has its own file systems. Make and
# its shells do not work with a space in a path.
ifneq ($(words $(CURDIR)),1)
$(error $(CURDIR) has a space in its path; clone to a path without one)
else ifneq ($(filter /proc/% /sys/% /dev/%,$(CURDIR)/),)
$(error $(CURDIR) lies under /$(word 1,$(subst /, ,$(CURDIR))), which each kernel has for itself; clone to another directory)
endif

include scripts/tools.mk

# FOR limits the time of `make run`, as in FOR=10s. If it is empty, `make run` runs until Ctrl-C.
FOR ?=

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# The programs do not contain the checkout's path, so that another checkout can use Go's compiled packages.
export GOFLAGS := -buildvcs=false -trimpath $(filter-out -buildvcs=false -trimpath,$(GOFLAGS))

# The tests need the programs, and the servers that run beside them.
TESTED := build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/influxd-$(INFLUXDB) $(TELEGRAF_LARGE) $(TOOLS)/promtool $(TOOLS)/alertmanager
ALL_TAGS := lab,guest,bench,schema,grafana
# UNIT are the packages whose tests need no other program, PROGRAMS those whose tests run the programs. The packages that take longest
# come first, so that none of them runs alone at the end. tests/history is in both: it runs the monitor in a simulated time, which the race
# detector has to see.
UNIT := ./tests/history ./cmd/... ./docs/... ./internal/... ./packaging/... ./plugins/...
PROGRAMS := ./tests/native ./tests/hosts ./assets/... ./tests/...
# SLOW are tests of PROGRAMS that take long. make test-push runs them in turn with the long forms, and make test-full in its
# part race.
SLOW := ^(TestOneBadLinkIsOnePageThatNamesIt|TestBothEnginesSayTheSameOfOneHour|TestEightLinksThatFallAreOneNotification|TestPortDownSinceTheRestartIsCriticalUntilForgotten|TestEveryCommandInTheDocumentsIsRun|TestEachOfSixFaultsStandsInTheUpper900PixelsWithHostDeviceAndAge)$$
LAB := go test -tags lab -count=1 -timeout 60m -v ./tests/lab
# The output of a guest is long: what failed is repeated at the end.
LAST := 2>&1 | awk -f scripts/failures-last.awk

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
# A program that did not change is not replaced, so that Go can use its cached test results.
build: setup-run ## build the programs into build/
	@CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o build/new/rdma-events ./cmd/rdma-events
	@CGO_ENABLED=1 go build -tags grpcnotrace -trimpath -ldflags "$(LDFLAGS)" -o build/new/rdma-events-worker ./cmd/rdma-events-worker
	@CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -ldflags "$(LDFLAGS)" -o build/new/rdma-events-tracer ./cmd/rdma-events-tracer
	@for program in rdma-events rdma-events-worker rdma-events-tracer; do cmp -s build/new/$$program build/$$program || mv build/new/$$program build/$$program; done

.PHONY: run
run: build $(TOOLS)/telegraf-$(TELEGRAF) ## real Telegraf with the plugin, line protocol on stdout; FOR=10s bounds it
	@scripts/run.sh "$(FOR)"

.PHONY: check
check: setup-test $(TESTED) ## before a commit, in minutes: build, vet, unit tests, golden files, kills, one guest
	go vet -tags $(ALL_TAGS) ./...
	go test $(UNIT)
	go test -run '^(TestGolden|TestKilledProcessIsReplacedAndLeavesNothing)$$' ./tests/e2e
	$(LAB) -run '^TestCheckGuest$$' $(LAST)

.PHONY: test
test: setup-test $(TESTED) ## all tests: unit with the race detector, the real programs, the lab
	@# make lint vets all packages, with all tags.
	go test -race -vet=off $(UNIT)
	@# Most of these wait for servers and programs, so more packages than processors are tested at once.
	go test -short -vet=off -p 4 -parallel 8 -skip '$(SLOW)' $(PROGRAMS)
	$(LAB) -short -skip '^(TestCheckGuest|TestVariants)$$' $(LAST)

.PHONY: test-slow
test-slow: setup-test $(TESTED) ## the slow tests of the real programs, which make test leaves out
	go test -short -count=1 -p 4 -parallel 8 -run '$(SLOW)' ./assets/prometheus ./tests/docs ./tests/hosts ./tests/preview ./tests/twins

.PHONY: test-push
test-push: setup-test $(TESTED) ## what CI adds to make test: other kernels, drivers and libraries, a soak, kills, fuzzing
	@scripts/test-push.sh

.PHONY: test-full
test-full: setup-test $(TESTED) ## the long forms, whole, on all kernels and drivers; PART=soak for one part, PART=list for their names
	@scripts/test-full.sh $(PART)

.PHONY: fuzz
fuzz: ## every fuzz test, for FOR=1m each
	@scripts/fuzz.sh $(or $(FOR),1m)

.PHONY: soak
soak: setup-test $(TESTED) ## faults without end in the lab, FOR=1h; fails on growth; SEED=... repeats a run
	RDMA_EVENTS_SOAK=$(or $(FOR),10m) RDMA_EVENTS_SOAK_SEED=$(SEED) $(LAB) -run '^TestSoak$$' -timeout 0

.PHONY: lab
lab: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## an interactive guest with a device, the plugin running and a prompt
	@go run ./tests/lab/cmd/lab shell

.PHONY: bench
bench: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/telegraf-infiniband $(TOOLS)/prometheus-node-exporter ## measure side by side with C programs and neighbours, into docs/explanation/performance.md
	go test -tags bench -run TestBench -count=1 -timeout 90m -v ./tests/bench
	go test -tags bench -run TestBench -count=1 -v ./internal/device/native

.PHONY: lint
lint: setup-run setup-lint $(TOOLS)/golangci-lint-$(GOLANGCI) $(TOOLS)/actionlint-$(ACTIONLINT) ## linters, quarantines, formats, eBPF objects, licences, Telegraf's readme linter
	@# Without -trimpath: cgo's cached output of another checkout would be used, and its files would not be found.
	GOFLAGS=-buildvcs=false $(TOOLS)/golangci-lint-$(GOLANGCI) run --build-tags $(ALL_TAGS) ./...
	@! git grep -n '^import "C"' -- '*.go' ':!internal/device/native' ':!internal/conformance' || { echo 'C types live only in internal/device/native and internal/conformance'; exit 1; }
	go run github.com/influxdata/telegraf/tools/readme_linter@v$(TELEGRAF) plugins/inputs/rdma_events/README.md
	git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck
	$(TOOLS)/actionlint-$(ACTIONLINT) .github/workflows/*.yml
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run --Werror
	@scripts/bpf.sh
	go run ./packaging/licences -check docs/reference/licences.md
	@npm --prefix packaging/container/lint ci --silent --ignore-scripts
	packaging/container/lint/node_modules/.bin/dockerfile-utils lint packaging/container/Dockerfile
	awk '/^RUN /,!/\\$$/ {sub(/^RUN /, ""); print}' packaging/container/Dockerfile | shellcheck -s sh -

.PHONY: format
format: setup-lint ## format Go and C files
	gofmt -w cmd internal packaging plugins tests
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

.PHONY: generate
generate: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## make anew what is generated: documents, dashboards, alerts, licences, the protobuf code
	@scripts/packages.sh generate
	PATH="$(CURDIR)/$(TOOLS):$$PATH" go generate ./...
	go run ./packaging/licences docs/reference/licences.md

include assets/targets.mk packaging/targets.mk

.PHONY: clean
clean: ## remove build/ and dist/
	rm -rf build dist
