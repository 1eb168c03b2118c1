# The tools that the targets use, with their versions, and the rules that build them into build/tools.
TOOLS := build/tools
# CACHE is shared by all checkouts of a user: built tools, and kernels for the lab's guests. build/cache links to it.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME:%=%/.cache),$(CURDIR)/build/local)/rdma_events
TELEGRAF := 1.39.3
GOLANGCI := v2.11.4
NFPM := v2.43.4
ACTIONLINT := v1.7.12
INFLUXDB := 1.8.3
KUSTOMIZE := v5.8.2
HELM := v3.19.0
KUBECTL_VALIDATE := v0.0.4
PROMETHEUS_OPERATOR := v0.85.0
# The versions of Kubernetes, of node-problem-detector and of Loki are in the go.mod of these directories.
KUBERNETES_MODULE := tests/kubernetes/cluster/servers
DETECTOR_MODULE := tests/kubernetes/cluster/detector
LOKI_MODULE := tests/loki/server
pinned = $(shell awk '$$1 == "$(2)" {print $$2} $$2 == "$(2)" {print $$3}' $(1)/go.mod)
KUBERNETES := $(call pinned,$(KUBERNETES_MODULE),k8s.io/kubernetes)
NODE_PROBLEM_DETECTOR := $(call pinned,$(DETECTOR_MODULE),k8s.io/node-problem-detector)
LOKI := $(call pinned,$(LOKI_MODULE),github.com/grafana/loki/v3)
TELEGRAF_TAGS := custom,inputs.execd,inputs.internal,outputs.file,outputs.discard,outputs.influxdb,parsers.influx,serializers.influx
# The tests of the shipped configurations use the image's Telegraf, whose plugins the Dockerfile lists, with the input that they
# read Kafka with. Kafka and Starlark would make the other Telegraf a third larger.
LARGE_TAGS := $(shell sed -n 's/^ARG TELEGRAF_TAGS=//p' packaging/container/Dockerfile),inputs.kafka_consumer
digest = $(shell printf %s '$(1)' | sha256sum | cut -c1-8)
# The name of this Telegraf contains the digest of its tags in build/tools too: an old checkout builds it anew when they change.
TELEGRAF_LARGE := $(TOOLS)/telegraf-large-$(TELEGRAF)-$(call digest,$(LARGE_TAGS))

.PHONY: setup setup-run setup-test setup-lint setup-package
setup: setup-test setup-lint setup-package $(TOOLS)/nfpm-$(NFPM) $(TOOLS)/telegraf-$(TELEGRAF) $(TELEGRAF_LARGE) $(TOOLS)/influxd-$(INFLUXDB) $(TOOLS)/promtool $(TOOLS)/alertmanager $(TOOLS)/golangci-lint-$(GOLANGCI) $(TOOLS)/actionlint-$(ACTIONLINT) ## install what all targets need
setup-run:
	@scripts/packages.sh run
setup-test:
	@scripts/packages.sh test
setup-lint:
	@scripts/packages.sh lint
setup-package:
	@scripts/packages.sh package

comma := ,

build/cache:
	@mkdir -p build $(CACHE) && ln -sfn $(CACHE) $@

# tool builds a tool in the cache and links to it from build/tools. The arguments are its name in the cache, its package
# with version, and flags of go install. The name in build/tools contains the version, so that another version is
# another file. The name in the cache also contains a digest of the build tags, if there are any.
tool = @mkdir -p $(TOOLS) && scripts/tool.sh "$(CACHE)/tools/$(1)" $(2) $(3) && ln -sfn "$(CACHE)/tools/$(1)" $@
# named creates a second link without the version, which tests and documents use.
named = @ln -sfn $(notdir $@) $(TOOLS)/$(1)
telegraf = $(call tool,telegraf-$(TELEGRAF)-$(call digest,$(1)),github.com/influxdata/telegraf/cmd/telegraf@v$(TELEGRAF),\
  -tags "$(1)" -ldflags "-s -w -X github.com/influxdata/telegraf/internal.Version=$(TELEGRAF)")

$(TOOLS)/%: export CGO_ENABLED = 0
$(TOOLS)/golangci-lint-%: export CGO_ENABLED = 1

$(TOOLS)/telegraf-$(TELEGRAF): | build/cache
	$(call telegraf,$(TELEGRAF_TAGS))
	$(call named,telegraf)
$(TELEGRAF_LARGE): | build/cache
	$(call telegraf,$(LARGE_TAGS))
	$(call named,telegraf-large)
# The benchmarks compare the plugin with these two programs; the plugin needs neither of them.
$(TOOLS)/telegraf-infiniband: | build/cache
	$(call telegraf,custom$(comma)inputs.infiniband$(comma)outputs.discard)
$(TOOLS)/prometheus-node-exporter:
	@scripts/unpack.sh prometheus-node-exporter usr/bin/prometheus-node-exporter $@
# Prometheus and Alertmanager take the files of assets/prometheus; promtool also runs the unit tests of the rules.
# Alertmanager does not start without its templates.
$(TOOLS)/promtool $(TOOLS)/prometheus &:
	@scripts/unpack.sh prometheus usr/bin/promtool $(TOOLS)/promtool usr/bin/prometheus $(TOOLS)/prometheus
$(TOOLS)/alertmanager:
	@scripts/unpack.sh prometheus-alertmanager usr/share/prometheus/alertmanager $@-templates usr/bin/prometheus-alertmanager $@
$(TOOLS)/influxd-$(INFLUXDB): | build/cache
	$(call tool,influxd-$(INFLUXDB),github.com/influxdata/influxdb/cmd/influxd@v$(INFLUXDB),-ldflags "-s -w -X main.version=$(INFLUXDB)")
	$(call named,influxd)
$(TOOLS)/golangci-lint-$(GOLANGCI): | build/cache
	$(call tool,golangci-lint-$(GOLANGCI),github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI))
$(TOOLS)/actionlint-$(ACTIONLINT): | build/cache
	$(call tool,actionlint-$(ACTIONLINT),github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT))
$(TOOLS)/nfpm-$(NFPM): | build/cache
	$(call tool,nfpm-$(NFPM),github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM))
$(TOOLS)/kustomize-$(KUSTOMIZE): | build/cache
	$(call tool,kustomize-$(KUSTOMIZE),sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE),-ldflags "-s -w")
	$(call named,kustomize)
$(TOOLS)/helm-$(HELM): | build/cache
	$(call tool,helm-$(HELM),helm.sh/helm/v3/cmd/helm@$(HELM),-ldflags "-s -w")
	$(call named,helm)
# kubectl-validate contains the schemas that Kubernetes publishes.
$(TOOLS)/kubectl-validate-$(KUBECTL_VALIDATE): | build/cache
	$(call tool,kubectl-validate-$(KUBECTL_VALIDATE),sigs.k8s.io/kubectl-validate@$(KUBECTL_VALIDATE),-ldflags "-s -w")
	$(call named,kubectl-validate)
# The servers compare their version with the one of an API, so they need it.
$(TOOLS)/kubernetes-$(KUBERNETES): | build/cache
	@mkdir -p $(TOOLS)
	@scripts/module-tools.sh "$(CACHE)/tools/$(notdir $@)" $(KUBERNETES_MODULE) "-X k8s.io/component-base/version.gitVersion=$(KUBERNETES)" \
	  kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager \
	  kube-scheduler=k8s.io/kubernetes/cmd/kube-scheduler kubectl=k8s.io/kubernetes/cmd/kubectl etcd=go.etcd.io/etcd/server/v3
	@ln -sfn "$(CACHE)/tools/$(notdir $@)" $@
	$(call named,kubernetes)
$(TOOLS)/node-problem-detector-$(NODE_PROBLEM_DETECTOR): | build/cache
	@mkdir -p $(TOOLS)
	@scripts/module-tools.sh "$(CACHE)/tools/$(notdir $@)" $(DETECTOR_MODULE) "" \
	  node-problem-detector=k8s.io/node-problem-detector/cmd/nodeproblemdetector
	@ln -sfn "$(CACHE)/tools/$(notdir $@)" $@
	$(call named,node-problem-detector)
$(TOOLS)/loki-$(LOKI): | build/cache
	@mkdir -p $(TOOLS)
	@scripts/module-tools.sh "$(CACHE)/tools/$(notdir $@)" $(LOKI_MODULE) "-X github.com/grafana/loki/v3/pkg/util/build.Version=$(LOKI)" \
	  loki=github.com/grafana/loki/v3/cmd/loki
	@ln -sfn "$(CACHE)/tools/$(notdir $@)" $@
	$(call named,loki)
# The types of the Prometheus Operator: only the files are used.
$(TOOLS)/prometheus-operator-crd-$(PROMETHEUS_OPERATOR): | build/cache
	@mkdir -p $@
	@module=$$(go mod download -json github.com/prometheus-operator/prometheus-operator@$(PROMETHEUS_OPERATOR) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
	  install -m 644 -t $@ "$$module"/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml \
	    "$$module"/example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml
	$(call named,prometheus-operator-crd)
$(TOOLS)/protoc-gen-go: | build/cache
	$(call tool,protoc-gen-go-v1.36.12,google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12)
$(TOOLS)/protoc-gen-go-grpc: | build/cache
	$(call tool,protoc-gen-go-grpc-v1.6.2,google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2)
