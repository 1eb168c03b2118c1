# rdma_events. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

TELEGRAF := 1.39.3
GOLANGCI := v2.11.4
NFPM := v2.43.4
INFLUXDB := 1.8.3
KUSTOMIZE := v5.8.2
KUBECTL_VALIDATE := v0.0.4
# FOR bounds `make run`, as in FOR=10s; empty: until Ctrl-C.
FOR ?=
# ADDR is where the InfluxDB of `make stack` listens; empty: a free port of 127.0.0.1.
ADDR ?=

TOOLS := build/tools
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TELEGRAF_TAGS := custom,inputs.execd,inputs.internal,outputs.file,outputs.discard,outputs.influxdb,parsers.influx,serializers.influx
# For the tests of assets/telegraf alone; Kafka and Starlark would make the other one a third larger.
KAFKA_TAGS := custom,inputs.execd,inputs.kafka_consumer,outputs.kafka,outputs.influxdb,outputs.file,processors.starlark,parsers.influx,serializers.influx
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=false,$(GOFLAGS))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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
test-full: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## the long forms, on two kernels and two drivers, into docs/reliability.md
	@scripts/test-full.sh

.PHONY: fuzz
fuzz: ## every fuzz test, for FOR=1m each
	@scripts/fuzz.sh $(or $(FOR),1m)

.PHONY: soak
soak: setup-test build $(TOOLS)/telegraf-$(TELEGRAF) ## faults without end in the lab, FOR=1h; fails on growth; SEED=... repeats a run
	RDMA_EVENTS_SOAK=$(or $(FOR),10m) RDMA_EVENTS_SOAK_SEED=$(SEED) go test -tags lab -count=1 -run '^TestSoak$$' -timeout 0 -v ./tests/lab

.PHONY: stack
stack: build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/influxd-$(INFLUXDB) ## InfluxDB, Telegraf and simulated hosts to point a Grafana at; ADDR=127.0.0.1:8086
	@go build -o build/stack ./tests/stack/cmd/stack
	@build/stack -addr "$(ADDR)"

.PHONY: preview
preview: $(TOOLS)/influxd-$(INFLUXDB) ## draw the dashboards' panels into docs/pictures, without a Grafana (needs npm and Chromium)
	@scripts/packages.sh preview
	@npm --prefix assets/preview ci --silent
	@npm --prefix assets/preview run --silent check
	@npm --prefix assets/preview run --silent build
	@mkdir -p docs/pictures
	@go run ./tests/preview/cmd/preview docs/pictures

.PHONY: scale
scale: build $(TOOLS)/influxd-$(INFLUXDB) ## fill an InfluxDB as 1,000 hosts would, and time the Fleet dashboard and the alert rules on it (15 minutes, 6 GB)
	@go build -o build/scale-bin ./tests/scale/cmd/scale
	@build/scale-bin -dir build/scale

.PHONY: test-schema
test-schema: $(TOOLS)/kustomize-$(KUSTOMIZE) $(TOOLS)/kubectl-validate-$(KUBECTL_VALIDATE) ## dashboards, alert rules and manifests against what Grafana and Kubernetes publish (needs npm)
	@scripts/packages.sh schema
	@npm --prefix tests/grafana/schema ci --silent --ignore-scripts
	go test -tags schema -run Schema ./tests/grafana ./tests/kubernetes
test-full: test-schema

.PHONY: grafana-test
grafana-test: build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/influxd-$(INFLUXDB) ## import all into your Grafana: GRAFANA_URL, GRAFANA_TOKEN
	go test -tags grafana -run RealGrafana -v -count 1 -timeout 15m ./tests/grafana

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
generate: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## regenerate docs/metrics.md, docs/licences.md and the protobuf code (needs protoc)
	PATH="$(CURDIR)/$(TOOLS):$$PATH" go generate ./...
	go run ./packaging/licences docs/licences.md

PACKAGING = VERSION='$(VERSION)' COMMIT='$(COMMIT)' LDFLAGS='$(LDFLAGS)' NFPM=$(TOOLS)/nfpm-$(NFPM)

.PHONY: package
package: setup-package $(TOOLS)/nfpm-$(NFPM) ## deb, rpm and tarball for amd64 and arm64, with checksums, into dist/
	rm -rf dist
	$(PACKAGING) scripts/package.sh dist

.PHONY: reproducible
reproducible: setup-package $(TOOLS)/nfpm-$(NFPM) ## build the packages of this commit twice and compare them; ARCHES=amd64 for one
	$(PACKAGING) scripts/reproducible.sh $(ARCHES)

.PHONY: try-packages
try-packages: setup-test package $(TOOLS)/telegraf-$(TELEGRAF) ## install, upgrade and remove the packages, in clean systems and in the lab
	$(PACKAGING) scripts/try-packages.sh dist
	RDMA_EVENTS_REQUIRE=package go test -count=1 -tags lab -run TestThePackage -v ./tests/lab

# IMAGE is what the image is called; CONTAINER_BUILD builds it: docker build, podman build, buildah build.
IMAGE ?= rdma-events
CONTAINER_BUILD ?= docker build
.PHONY: image
image: ## Telegraf and the plugin in a container image: IMAGE=registry.example.com/rdma-events:v1
	$(CONTAINER_BUILD) -f packaging/container/Dockerfile --build-arg VERSION='$(VERSION)' --build-arg COMMIT='$(COMMIT)' \
	  --build-arg TELEGRAF_VERSION='$(TELEGRAF)' -t '$(IMAGE)' .

.PHONY: try-image
try-image: setup-test build ## build the image without a registry, and run it as the DaemonSet does, in the lab
	@scripts/packages.sh image
	VERSION='$(VERSION)' COMMIT='$(COMMIT)' TELEGRAF='$(TELEGRAF)' scripts/try-image.sh build/image
	RDMA_EVENTS_REQUIRE=image go test -count=1 -tags lab -run TestTheImage -v ./tests/lab

.PHONY: release
release: ## what is released, tried, into dist/; wants a clean tree
	@[ -z "$$(git status --porcelain)" ] || { echo 'make release: commit first: what is released is a commit' >&2; exit 1; }
	$(MAKE) try-packages
	cp CHANGELOG.md docs/licences.md dist/
	@ls -l dist

.PHONY: setup setup-run setup-test setup-lint setup-package
setup: setup-test setup-lint setup-package $(TOOLS)/nfpm-$(NFPM) $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/telegraf-kafka-$(TELEGRAF) $(TOOLS)/influxd-$(INFLUXDB) $(TOOLS)/golangci-lint-$(GOLANGCI) ## install what all targets need
setup-run:
	@scripts/packages.sh run
setup-test:
	@scripts/packages.sh test
setup-lint:
	@scripts/packages.sh lint
setup-package:
	@scripts/packages.sh package

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
$(TOOLS)/telegraf-kafka-$(TELEGRAF):
	@echo "building Telegraf $(TELEGRAF) with Kafka into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS)/kafka CGO_ENABLED=0 go install -trimpath -tags "$(KAFKA_TAGS)" \
	  -ldflags "-s -w -X github.com/influxdata/telegraf/internal.Version=$(TELEGRAF)" \
	  github.com/influxdata/telegraf/cmd/telegraf@v$(TELEGRAF)
	@mv $(TOOLS)/kafka/telegraf $@
	@rmdir $(TOOLS)/kafka
	@ln -sf telegraf-kafka-$(TELEGRAF) $(TOOLS)/telegraf-kafka
$(TOOLS)/influxd-$(INFLUXDB):
	@echo "building InfluxDB $(INFLUXDB) into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS) CGO_ENABLED=0 go install -trimpath -ldflags "-s -w -X main.version=$(INFLUXDB)" \
	  github.com/influxdata/influxdb/cmd/influxd@v$(INFLUXDB)
	@mv $(TOOLS)/influxd $@
	@ln -sf influxd-$(INFLUXDB) $(TOOLS)/influxd
$(TOOLS)/golangci-lint-$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI) into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI)
	@mv $(TOOLS)/golangci-lint $@
$(TOOLS)/nfpm-$(NFPM):
	@echo "building nfpm $(NFPM) into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS) go install -trimpath github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM)
	@mv $(TOOLS)/nfpm $@
$(TOOLS)/kustomize-$(KUSTOMIZE):
	@echo "building kustomize $(KUSTOMIZE) into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS) CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE)
	@mv $(TOOLS)/kustomize $@
	@ln -sf kustomize-$(KUSTOMIZE) $(TOOLS)/kustomize
# It carries the schemas that Kubernetes publishes.
$(TOOLS)/kubectl-validate-$(KUBECTL_VALIDATE):
	@echo "building kubectl-validate $(KUBECTL_VALIDATE) into $(TOOLS)" >&2
	@GOBIN=$(CURDIR)/$(TOOLS) CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" sigs.k8s.io/kubectl-validate@$(KUBECTL_VALIDATE)
	@mv $(TOOLS)/kubectl-validate $@
	@ln -sf kubectl-validate-$(KUBECTL_VALIDATE) $(TOOLS)/kubectl-validate
$(TOOLS)/protoc-gen-go:
	GOBIN=$(CURDIR)/$(TOOLS) go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
$(TOOLS)/protoc-gen-go-grpc:
	GOBIN=$(CURDIR)/$(TOOLS) go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

.PHONY: clean
clean: ## remove build/ and dist/
	rm -rf build dist
