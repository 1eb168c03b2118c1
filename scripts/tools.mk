# The tools that targets use: which, and how they come into build/tools.
TOOLS := build/tools
TELEGRAF := 1.39.3
GOLANGCI := v2.11.4
NFPM := v2.43.4
INFLUXDB := 1.8.3
KUSTOMIZE := v5.8.2
KUBECTL_VALIDATE := v0.0.4
TELEGRAF_TAGS := custom,inputs.execd,inputs.internal,outputs.file,outputs.discard,outputs.influxdb,parsers.influx,serializers.influx
# For the tests of assets/telegraf alone; Kafka and Starlark would make the other one a third larger.
KAFKA_TAGS := custom,inputs.execd,inputs.kafka_consumer,outputs.kafka,outputs.influxdb,outputs.file,processors.starlark,parsers.influx,serializers.influx

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
