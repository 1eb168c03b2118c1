# rdma_events. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

TELEGRAF := 1.39.3
GOLANGCI := v2.11.4
# FOR bounds `make run`, as in FOR=10s; empty: until Ctrl-C.
FOR ?=

TOOLS := build/tools
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TELEGRAF_TAGS := custom,inputs.execd,inputs.internal,outputs.file,outputs.discard,outputs.influxdb,parsers.influx,serializers.influx
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=false,$(GOFLAGS))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: setup-run ## build both programs into build/
	@CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o build/rdma-events ./cmd/rdma-events
	@CGO_ENABLED=1 go build -tags grpcnotrace -trimpath -ldflags "$(LDFLAGS)" -o build/rdma-events-worker ./cmd/rdma-events-worker

.PHONY: run
run: build $(TOOLS)/telegraf-$(TELEGRAF) ## real Telegraf with the plugin, line protocol on stdout; FOR=10s bounds it
	@scripts/run.sh "$(FOR)"

.PHONY: test
test: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## all tests: unit and contract with race detector, end to end, lab
	go vet -tags 'lab guest' ./...
	go test -race ./...
	go test -tags lab -short -timeout 30m -v ./tests/lab

.PHONY: test-full
test-full: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## the lab's long forms, on two kernels and two drivers
	go test -tags lab -timeout 60m -v ./tests/lab

.PHONY: lab
lab: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## an interactive guest with a device, the plugin running and a prompt
	@go run ./tests/lab/cmd/lab shell

.PHONY: bench
bench: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/telegraf-infiniband $(TOOLS)/prometheus-node-exporter ## measure side by side with C programs and neighbours, into docs/benchmarks.md
	go test -tags bench -run TestBench -count=1 -timeout 30m -v ./tests/bench

.PHONY: lint
lint: setup-run $(TOOLS)/golangci-lint-$(GOLANGCI) ## linters, quarantines, Telegraf's readme linter
	$(TOOLS)/golangci-lint-$(GOLANGCI) run --build-tags lab,guest ./...
	@! git grep -n '^import "C"' -- '*.go' ':!internal/verbs' || { echo 'C types live only in internal/verbs'; exit 1; }
	go run github.com/influxdata/telegraf/tools/readme_linter@v$(TELEGRAF) plugins/inputs/rdma_events/README.md

.PHONY: generate
generate: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## regenerate docs/metrics.md and the protobuf code (needs protoc)
	PATH="$(CURDIR)/$(TOOLS):$$PATH" go generate ./...

.PHONY: setup setup-run setup-test
setup: setup-test $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/golangci-lint-$(GOLANGCI) ## install what all targets need
setup-run:
	@scripts/packages.sh run
setup-test:
	@scripts/packages.sh test

# The version is in the file's name, so that another pin is another file.
$(TOOLS)/telegraf-$(TELEGRAF):
	@echo "building Telegraf $(TELEGRAF) into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS) CGO_ENABLED=0 go install -trimpath -tags "$(TELEGRAF_TAGS)" \
	  -ldflags "-s -w -X github.com/influxdata/telegraf/internal.Version=$(TELEGRAF)" \
	  github.com/influxdata/telegraf/cmd/telegraf@v$(TELEGRAF)
	@mv $(TOOLS)/telegraf $@
	@ln -sf telegraf-$(TELEGRAF) $(TOOLS)/telegraf
# Neighbours to be measured beside; the plugin needs neither.
$(TOOLS)/telegraf-infiniband:
	@echo "building Telegraf $(TELEGRAF) with its input infiniband into $(TOOLS)" >&2
	@mkdir -p $(TOOLS)/peer
	@GOBIN=$(CURDIR)/$(TOOLS)/peer CGO_ENABLED=0 go install -trimpath -tags "custom,inputs.infiniband,outputs.discard" \
	  github.com/influxdata/telegraf/cmd/telegraf@v$(TELEGRAF)
	@mv $(TOOLS)/peer/telegraf $@ && rmdir $(TOOLS)/peer
$(TOOLS)/prometheus-node-exporter:
	@scripts/unpack.sh prometheus-node-exporter usr/bin/prometheus-node-exporter $@
$(TOOLS)/golangci-lint-$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI) into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	@mv $(TOOLS)/golangci-lint $@
$(TOOLS)/protoc-gen-go:
	GOBIN=$(CURDIR)/$(TOOLS) go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
$(TOOLS)/protoc-gen-go-grpc:
	GOBIN=$(CURDIR)/$(TOOLS) go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

.PHONY: clean
clean: ## remove build/
	rm -rf build
