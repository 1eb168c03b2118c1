# rdma_events. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

include scripts/tools.mk

# FOR bounds `make run`, as in FOR=10s; empty: until Ctrl-C.
FOR ?=

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=false,$(GOFLAGS))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
# A program that did not change stays as it is, so that Go knows its tests' results.
build: setup-run ## build both programs into build/
	@CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o build/new/rdma-events ./cmd/rdma-events
	@CGO_ENABLED=1 go build -tags grpcnotrace -trimpath -ldflags "$(LDFLAGS)" -o build/new/rdma-events-worker ./cmd/rdma-events-worker
	@for program in rdma-events rdma-events-worker; do cmp -s build/new/$$program build/$$program || mv build/new/$$program build/$$program; done

.PHONY: run
run: build $(TOOLS)/telegraf-$(TELEGRAF) ## real Telegraf with the plugin, line protocol on stdout; FOR=10s bounds it
	@scripts/run.sh "$(FOR)"

.PHONY: test
test: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/influxd-$(INFLUXDB) $(TOOLS)/telegraf-kafka-$(TELEGRAF) ## all tests: unit and contract with race detector, end to end, lab
	go vet -tags 'lab guest bench schema grafana' ./...
	go test -race ./...
	go test -tags lab -short -timeout 30m -v ./tests/lab

.PHONY: test-full
test-full: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/influxd-$(INFLUXDB) ## the long forms, on two kernels and two drivers, into docs/reliability.md
	@scripts/test-full.sh

.PHONY: fuzz
fuzz: ## every fuzz test, for FOR=1m each
	@scripts/fuzz.sh $(or $(FOR),1m)

.PHONY: soak
soak: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## faults without end in the lab, FOR=1h; fails on growth; SEED=... repeats a run
	RDMA_EVENTS_SOAK=$(or $(FOR),10m) RDMA_EVENTS_SOAK_SEED=$(SEED) go test -tags lab -count=1 -run '^TestSoak$$' -timeout 0 -v ./tests/lab

.PHONY: lab
lab: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## an interactive guest with a device, the plugin running and a prompt
	@go run ./tests/lab/cmd/lab shell

.PHONY: bench
bench: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/telegraf-infiniband $(TOOLS)/prometheus-node-exporter ## measure side by side with C programs and neighbours, into docs/benchmarks.md
	go test -tags bench -run TestBench -count=1 -timeout 30m -v ./tests/bench

.PHONY: lint
lint: setup-run setup-lint $(TOOLS)/golangci-lint-$(GOLANGCI) ## linters, quarantines, formats, licences, Telegraf's readme linter
	$(TOOLS)/golangci-lint-$(GOLANGCI) run --build-tags lab,guest,bench,schema,grafana ./...
	@! git grep -n '^import "C"' -- '*.go' ':!internal/verbs' || { echo 'C types live only in internal/verbs'; exit 1; }
	go run github.com/influxdata/telegraf/tools/readme_linter@v$(TELEGRAF) plugins/inputs/rdma_events/README.md
	git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format --dry-run --Werror
	go run ./packaging/licences -check docs/licences.md
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
	go run ./packaging/licences docs/licences.md

include assets/targets.mk packaging/targets.mk

.PHONY: clean
clean: ## remove build/ and dist/
	rm -rf build dist
