# Targets for the files for Grafana and InfluxDB: they try, draw, check and measure them.

# ADDR is the address on which the InfluxDB of `make stack` listens. If it is empty, a free port of 127.0.0.1 is used.
ADDR ?=

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
scale: build $(TOOLS)/influxd-$(INFLUXDB) $(TELEGRAF_LARGE) $(TOOLS)/promtool ## fill an InfluxDB and a Prometheus as 1,000 hosts would, and time the Overview dashboard and the alert rules on them (30 minutes, 30 GB)
	@go build -o build/scale-bin ./tests/scale/cmd/scale
	@build/scale-bin -dir build/scale

.PHONY: test-schema
test-schema: $(TOOLS)/kustomize-$(KUSTOMIZE) $(TOOLS)/kubectl-validate-$(KUBECTL_VALIDATE) $(TOOLS)/prometheus-operator-crd-$(PROMETHEUS_OPERATOR) ## dashboards, alert rules and manifests against what Grafana and Kubernetes publish (needs npm)
	@scripts/packages.sh schema
	@npm --prefix tests/grafana/schema ci --silent --ignore-scripts
	go test -tags schema -run Schema ./tests/grafana ./tests/kubernetes

.PHONY: grafana-test
grafana-test: build $(TOOLS)/telegraf-$(TELEGRAF) $(TOOLS)/influxd-$(INFLUXDB) ## import all into your Grafana: GRAFANA_URL, GRAFANA_TOKEN
	go test -tags grafana -run RealGrafana -v -count 1 -timeout 15m ./tests/grafana

.PHONY: test-chart
test-chart: $(TOOLS)/helm-$(HELM) $(TOOLS)/kustomize-$(KUSTOMIZE) $(TOOLS)/kubectl-validate-$(KUBECTL_VALIDATE) $(TOOLS)/prometheus-operator-crd-$(PROMETHEUS_OPERATOR) ## the Helm chart against the kustomization and what Kubernetes publishes
	go test -tags schema -run Chart ./tests/kubernetes

.PHONY: test-cluster
test-cluster: build $(TOOLS)/kubernetes-$(KUBERNETES) $(TOOLS)/node-problem-detector-$(NODE_PROBLEM_DETECTOR) $(TOOLS)/helm-$(HELM) $(TOOLS)/prometheus-operator-crd-$(PROMETHEUS_OPERATOR) ## the manifests and the chart on real servers of Kubernetes, which admit and schedule the pods but run none
	go test -count=1 -tags schema -v ./tests/kubernetes/cluster

.PHONY: test-loki
test-loki: build $(TELEGRAF_LARGE) $(TOOLS)/loki-$(LOKI) ## the dashboards' log queries on a real Loki, which is built once (6 minutes)
	go test -count=1 -tags schema -v ./tests/loki
