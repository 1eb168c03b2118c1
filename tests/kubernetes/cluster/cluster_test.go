//go:build schema

package cluster

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.."

// node is the name of the cluster's node in the commands of docs/how-to/kubernetes.md.
const node = "NODE"

// nodeObject is a node with what the DaemonSets ask for. Only the test reports for it.
const nodeObject = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/rack": "rack-1"}},
	"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}`

const nodeStatus = `{"status": {
	"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi", "rdma/hca_shared_devices_a": "8", "rdma/mlx_pool": "8"},
	"addresses": [{"type": "InternalIP", "address": "10.0.1.1"}],
	"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "the test says so"}]}}`

// tool returns the path of a program that `make test-cluster` builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "build/tools", name))
	require.NoError(t, err)
	require.FileExists(t, path, "run: make test-cluster")
	return path
}

// startCluster returns a running cluster with the node node-1, for the time of the test.
func startCluster(t *testing.T) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c, err := Start(ctx, filepath.Dir(tool(t, "kubernetes/kube-apiserver")), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	kubectl(t, c, nodeObject, "create", "-f", "-")
	kubectl(t, c, "", "patch", "node", "node-1", "--subresource=status", "-p", nodeStatus)
	kubectl(t, c, "", "apply", "--server-side", "-f", filepath.Join(root, "build/tools/prometheus-operator-crd")+"/")
	kubectl(t, c, "", "wait", "--for=condition=Established", "--timeout=1m", "crd/podmonitors.monitoring.coreos.com", "crd/prometheusrules.monitoring.coreos.com")
	return c
}

func kubectl(t *testing.T, c *Cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), stdin, args...)
	require.NoError(t, err)
	return out
}

// rowsOf returns the lines that a kubectl command prints, without the empty ones.
func rowsOf(t *testing.T, c *Cluster, args ...string) []string {
	t.Helper()
	return strings.FieldsFunc(kubectl(t, c, "", args...), func(r rune) bool { return r == '\n' })
}

// pods is the query for the pods of the namespace rdma-events that have a node: their program, node, priority and policy of preemption.
var pods = []string{"get", "pods", "-n", "rdma-events", "-o",
	`jsonpath={range .items[?(@.spec.nodeName)]}{.metadata.labels.app\.kubernetes\.io/name} {.spec.nodeName} {.spec.priority} {.spec.preemptionPolicy}{"\n"}{end}`}

// requirePods waits until the namespace has these pods on a node, and fails with the namespace's events if it never has.
func requirePods(t *testing.T, c *Cluster, what string, want ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		out, err := c.Kubectl(t.Context(), "", pods...)
		require.NoError(collect, err)
		events, err := c.Kubectl(t.Context(), "", "get", "events", "-n", "rdma-events")
		require.NoError(collect, err)
		require.ElementsMatch(collect, want, strings.FieldsFunc(out, func(r rune) bool { return r == '\n' }), "%s: %s", what, events)
	}, time.Minute, 200*time.Millisecond)
}

// removeAll removes what is in the namespace, and waits until it has gone. No kubelet ends the pods, so they are deleted at once.
func removeAll(t *testing.T, c *Cluster) {
	t.Helper()
	kubectl(t, c, "", "delete", "daemonsets", "--all", "-n", "rdma-events", "--cascade=orphan")
	kubectl(t, c, "", "delete", "pods", "--all", "-n", "rdma-events", "--grace-period=0", "--force")
	kubectl(t, c, "", "delete", "namespace", "rdma-events", "--timeout=1m")
}

const (
	pluginPod   = "rdma-events node-1 1000000 Never"
	detectorPod = "rdma-problem-detector node-1 1000000 Never"
)

// kustomizations are the directories that a cluster takes, with the pods that it has then.
var kustomizations = map[string][]string{
	filepath.Join(root, "packaging/kubernetes/base"):    {pluginPod},
	filepath.Join(root, "packaging/kubernetes/example"): {pluginPod},
	"../testdata/host-network":                          {pluginPod},
	"../testdata/prometheus":                            {pluginPod},
	"../testdata/places":                                {pluginPod},
	"../testdata/node-problem-detector":                 {pluginPod, detectorPod},
	"../testdata/applications":                          {pluginPod},
	"../testdata/fabric":                                {pluginPod},
	"../testdata/state":                                 {pluginPod},
	"../testdata/state-and-others":                      {pluginPod, detectorPod},
	"../testdata/own-config":                            {pluginPod},
}

func TestClusterRunsThePodsOfEachKustomization(t *testing.T) {
	c := startCluster(t)
	dir := filepath.Join(root, "packaging/kubernetes/base")
	kubectl(t, c, "", "apply", "-k", dir)
	require.Eventually(t, func() bool {
		out, err := c.Kubectl(t.Context(), "", "get", "daemonset", "-n", "rdma-events", "rdma-events", "-o",
			"jsonpath={.status.observedGeneration} {.status.desiredNumberScheduled}")
		return err == nil && out == "1 0"
	}, time.Minute, 200*time.Millisecond, "a node without the label gets no pod")
	kubectl(t, c, "", "label", "node", "node-1", "feature.node.kubernetes.io/custom-rdma.available=true")
	requirePods(t, c, "with the label", pluginPod)
	removeAll(t, c)
	tested, err := os.ReadDir("../testdata")
	require.NoError(t, err)
	for _, d := range tested {
		require.Contains(t, kustomizations, filepath.Join("../testdata", d.Name()))
	}
	for dir, want := range kustomizations {
		kubectl(t, c, "", "apply", "-k", dir)
		requirePods(t, c, dir, want...)
		removeAll(t, c)
	}
}

// Pod Security refuses what needs the level that the components set: the test above could pass on a cluster that admits anything.
func TestClusterRefusesPodsAboveTheLevelOfTheNamespace(t *testing.T) {
	c := startCluster(t)
	kubectl(t, c, "", "label", "node", "node-1", "feature.node.kubernetes.io/custom-rdma.available=true")
	for _, dir := range []string{"host-network", "node-problem-detector", "applications", "fabric", "state"} {
		manifests := kubectl(t, c, "", "kustomize", filepath.Join("../testdata", dir))
		const level = "pod-security.kubernetes.io/enforce: "
		require.Contains(t, manifests, level+"privileged")
		kubectl(t, c, strings.Replace(manifests, level+"privileged", level+"restricted", 1), "apply", "-f", "-")
		require.Eventually(t, func() bool {
			out, err := c.Kubectl(t.Context(), "", "get", "events", "-n", "rdma-events", "-o", "jsonpath={.items[*].message}")
			return err == nil && strings.Contains(out, `violates PodSecurity "restricted:latest"`)
		}, time.Minute, 200*time.Millisecond, dir)
		require.NotContains(t, rowsOf(t, c, pods...), pluginPod)
		removeAll(t, c)
	}
}

// helm runs a command of Helm in the cluster.
func helm(t *testing.T, c *Cluster, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, "helm"), args...)
	cmd.Env = c.Environ()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "helm %v: %s", args, out)
}

func TestClusterTakesTheChart(t *testing.T) {
	c := startCluster(t)
	kubectl(t, c, "", "label", "node", "node-1", "feature.node.kubernetes.io/custom-rdma.available=true")
	chart := filepath.Join(root, "packaging/kubernetes/chart")
	output := filepath.Join(t.TempDir(), "output.conf")
	require.NoError(t, os.WriteFile(output, []byte("[[outputs.discard]]\n"), 0o600))
	values := []string{"--namespace", "rdma-events", "--set", "image.repository=registry.example.com/rdma-events", "--set-file", `config.output\.conf=` + output}
	kubectl(t, c, "", "create", "namespace", "rdma-events")
	kubectl(t, c, "", "label", "namespace", "rdma-events", "pod-security.kubernetes.io/enforce=restricted")
	helm(t, c, append([]string{"install", "rdma-events", chart}, values...)...)
	requirePods(t, c, "installed", pluginPod)
	generation := []string{"get", "daemonset", "-n", "rdma-events", "rdma-events", "-o", "jsonpath={.metadata.generation}"}
	require.Equal(t, "1", kubectl(t, c, "", generation...))

	require.NoError(t, os.WriteFile(output, []byte("[[outputs.discard]]\n# changed\n"), 0o600))
	helm(t, c, append([]string{"upgrade", "rdma-events", chart}, values...)...)
	require.Equal(t, "2", kubectl(t, c, "", generation...), "another configuration replaces the pods")
	helm(t, c, append([]string{"upgrade", "rdma-events", chart}, values...)...)
	require.Equal(t, "2", kubectl(t, c, "", generation...), "the same one does not")

	kubectl(t, c, "", "create", "namespace", "other")
	helm(t, c, "install", "other", chart, "--namespace", "other", "--set", "image.repository=registry.example.com/rdma-events",
		"--set", "detectorImage.repository=registry.example.com/detector", "--set", "components.node-problem-detector=true", "--set", "components.state=true",
		"--set", "components.prometheus=true", "--set", "components.places=true", "--set", "components.applications=true", "--set", "components.fabric=true",
		"--set-file", "config.rdma_events\\.conf=../testdata/own-config/config/rdma_events.conf")
	kubectl(t, c, "", "wait", "--for=create", "--timeout=1m", "-n", "other", "daemonset/rdma-events", "daemonset/rdma-problem-detector")
	helm(t, c, "uninstall", "other", "--namespace", "other")

	helm(t, c, "uninstall", "rdma-events", "--namespace", "rdma-events")
	require.Empty(t, rowsOf(t, c, "get", "daemonsets,configmaps,networkpolicies", "-n", "rdma-events", "-l", "app.kubernetes.io/managed-by=Helm", "-o", "name"))
	_, err := c.Kubectl(t.Context(), "", "get", "priorityclass", "rdma-events")
	require.ErrorContains(t, err, "not found")
}

// block returns the fenced block of docs/how-to/kubernetes.md that contains a text.
func block(t *testing.T, text string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/how-to/kubernetes.md"))
	require.NoError(t, err)
	for i, part := range strings.Split(string(page), "```") {
		if i%2 == 1 && strings.Contains(part, text) {
			_, body, _ := strings.Cut(part, "\n")
			return body
		}
	}
	require.Fail(t, "no block has "+text)
	return ""
}

// shell runs commands of the page as its reader does, in dir, with the node's name in place of NODE.
func shell(t *testing.T, c *Cluster, dir, commands string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", strings.ReplaceAll(commands, node, "node-1"))
	cmd.Env, cmd.Dir = c.Environ(), dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", commands, out)
	return string(out)
}

func TestClusterTakesTheCommandsOfTheDocuments(t *testing.T) {
	c := startCluster(t)
	dir := t.TempDir()
	shell(t, c, dir, block(t, "kubectl label node NODE"))
	kubectl(t, c, "", "apply", "-k", filepath.Join(root, "packaging/kubernetes/base"))
	requirePods(t, c, "base", pluginPod)

	shell(t, c, dir, block(t, "create secret generic rdma-events-fabric"))
	require.Equal(t, []string{"fabric.key"}, rowsOf(t, c, "get", "secret", "-n", "rdma-events", "rdma-events-fabric", "-o",
		`go-template={{range $k, $v := .data}}{{$k}}{{"\n"}}{{end}}`))
	shell(t, c, dir, block(t, "custom-columns"))
	peers, err := os.ReadFile(filepath.Join(dir, "peers"))
	require.NoError(t, err)
	require.Equal(t, []string{"node-1", "rack-1", "10.0.1.1"}, strings.Fields(string(peers)))
	for _, list := range []string{string(peers), "# changed\n" + string(peers)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "peers"), []byte(list), 0o600))
		shell(t, c, dir, block(t, "create configmap rdma-events-peers"))
		require.Equal(t, list, kubectl(t, c, "", "get", "configmap", "-n", "rdma-events", "rdma-events-peers", "-o", "jsonpath={.data.peers}"))
	}

	kubectl(t, c, "", "patch", "node", "node-1", "--subresource=status", "-p",
		`{"status": {"conditions": [{"type": "RDMAProblem", "status": "True", "reason": "RDMAHasProblem", "message": "mlx5_1:1 port-down"}]}}`)
	require.Equal(t, "mlx5_1:1 port-down", shell(t, c, dir, block(t, "jsonpath='{.status.conditions")))

	kubectl(t, c, block(t, "kind: DeviceTaintRule"), "apply", "--server-side", "--validate=strict", "-f", "-")
	var rule struct {
		Spec struct {
			DeviceSelector map[string]any `json:"deviceSelector"`
			Taint          map[string]any `json:"taint"`
		} `json:"spec"`
	}
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, c, "", "get", "devicetaintrule", "node0017-mlx5-3", "-o", "json")), &rule))
	require.Equal(t, map[string]any{"driver": "dra.example.com", "pool": "node0017", "device": "mlx5-3"}, rule.Spec.DeviceSelector)
	require.Equal(t, "NoSchedule", rule.Spec.Taint["effect"])
	wrong := strings.Replace(block(t, "kind: DeviceTaintRule"), "effect: NoSchedule", "effect: NoPods", 1)
	_, err = c.Kubectl(t.Context(), wrong, "apply", "--server-side", "-f", "-")
	require.ErrorContains(t, err, "NoPods")
	require.Contains(t, kubectl(t, c, "", "api-versions"), "resource.k8s.io/v1beta2\n")
}
