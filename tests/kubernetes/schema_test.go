//go:build schema

package kubernetes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kustomizations are the base, the example of an overlay, and the base with each of the
// components.
var kustomizations = []string{
	filepath.Join(root, "packaging/kubernetes/base"),
	filepath.Join(root, "packaging/kubernetes/example"),
	"testdata/host-network",
	"testdata/prometheus",
	"testdata/places",
	"testdata/node-problem-detector",
	"testdata/applications",
	"testdata/fabric",
	"testdata/state",
	"testdata/state-and-others",
	"testdata/own-config",
}

// buildManifests returns the manifests that kustomize builds from a directory.
func buildManifests(t *testing.T, dir string) string {
	t.Helper()
	tool := filepath.Join(root, "build/tools/kustomize")
	require.FileExists(t, tool, "run: make test-schema")
	out, err := exec.CommandContext(t.Context(), tool, "build", dir).Output()
	require.NoError(t, err)
	return string(out)
}

// schemaComplaints returns the errors that kubectl-validate finds in manifests. It contains the schemas that Kubernetes publishes, and
// would query a cluster if one were configured.
func schemaComplaints(t *testing.T, manifests string) string {
	t.Helper()
	tool := filepath.Join(root, "build/tools/kubectl-validate")
	require.FileExists(t, tool, "run: make test-schema")
	path := filepath.Join(t.TempDir(), "manifests.yaml")
	require.NoError(t, os.WriteFile(path, []byte(manifests), 0o644))
	// The types of the Prometheus Operator, as it publishes them.
	types := filepath.Join(root, "build/tools/prometheus-operator-crd")
	require.FileExists(t, filepath.Join(types, "monitoring.coreos.com_podmonitors.yaml"), "run: make test-schema")
	cmd := exec.CommandContext(t.Context(), tool, "--local-crds", types, path)
	cmd.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + filepath.Join(t.TempDir(), "none")}
	out, err := cmd.CombinedOutput()
	if err == nil {
		require.Contains(t, string(out), "OK")
		return ""
	}
	return string(out)
}

func TestManifestsFollowKubernetesPublishedSchema(t *testing.T) {
	for _, dir := range kustomizations {
		manifests := buildManifests(t, dir)
		require.Contains(t, manifests, "kind: DaemonSet")
		require.Empty(t, schemaComplaints(t, manifests), dir)
	}
}

// The documents advise a copy beside the example. It requests the base's resource unless its patch is uncommented.
func TestSchemaOfACopiedExampleIsTheExamples(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "packaging/kubernetes"))))
	example, own := filepath.Join(dir, "example"), filepath.Join(dir, "my-cluster")
	require.NoError(t, os.CopyFS(own, os.DirFS(example)))
	manifests := buildManifests(t, own)
	require.Equal(t, buildManifests(t, example), manifests)
	require.Contains(t, manifests, "rdma/hca_shared_devices_a: 1\n")

	path := filepath.Join(own, "kustomization.yaml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	settings, patches, found := strings.Cut(string(text), "# patches:\n")
	require.True(t, found)
	patched := settings + "patches:\n" + strings.ReplaceAll(patches, "# ", "")
	require.NoError(t, os.WriteFile(path, []byte(patched), 0o600))
	manifests = buildManifests(t, own)
	require.Contains(t, manifests, "rdma/mlx_pool: 1\n")
	require.NotContains(t, manifests, "hca_shared_devices_a")
	require.Empty(t, schemaComplaints(t, manifests))
}

func TestTheSchemaComplainsOfWhatKubernetesDoesNotKnow(t *testing.T) {
	manifests := buildManifests(t, kustomizations[0])
	for was, is := range map[string]string{
		"drop:":                              "drops:",
		"runAsNonRoot: true":                 `runAsNonRoot: "yes"`,
		"runAsUser: 65532":                   "runAsUser: nobody",
		"periodSeconds: 20":                  "periodSeconds: 20s",
		"terminationGracePeriodSeconds: 20":  "terminationGrace: 20",
		"apiVersion: apps/v1":                "apiVersion: apps/v1beta9",
		"- emptyDir:":                        "- emptydir:",
		"requiredDuringSchedulingIgnoredDur": "requiredDuringSchedulingRequiredDur",
	} {
		require.Contains(t, manifests, was)
		require.NotEmpty(t, schemaComplaints(t, strings.Replace(manifests, was, is, 1)), is)
	}
}

func TestTheSchemaComplainsOfWhatThePrometheusOperatorDoesNotKnow(t *testing.T) {
	manifests := buildManifests(t, "testdata/prometheus")
	for was, is := range map[string]string{
		"interval: 15s":          "interval: soon",
		"podMetricsEndpoints:":   "podMetrics:",
		"alert: RDMAPortDown":    "alert: [RDMAPortDown]",
		"name: rdma_events_past": "nam: rdma_events_past",
	} {
		require.Contains(t, manifests, was)
		require.NotEmpty(t, schemaComplaints(t, strings.Replace(manifests, was, is, 1)), is)
	}
	require.Contains(t, manifests, "containerPort: 9273")
	require.Contains(t, manifests, "outputs.prometheus_client")
	require.NotContains(t, manifests, "outputs.influxdb")
}

// Nothing may connect to the pods but a Prometheus. They preempt no job.
func TestTheSchemaOfTheNetworkIsOpenToPrometheusAlone(t *testing.T) {
	base := buildManifests(t, kustomizations[0])
	require.Contains(t, base, "kind: NetworkPolicy")
	require.Contains(t, base, "  ingress: []\n")
	require.Contains(t, buildManifests(t, "testdata/prometheus"), "  ingress:\n  - ports:\n    - port: metrics\n")
	require.Contains(t, base, "priorityClassName: rdma-events\n")
	require.Contains(t, base, "preemptionPolicy: Never\n")
	for was, is := range map[string]string{
		"preemptionPolicy: Never": "preemption: Never",
		"  ingress: []":           "  ingress: none",
		"policyTypes:":            "policyType:",
	} {
		require.Contains(t, base, was)
		require.NotEmpty(t, schemaComplaints(t, strings.Replace(base, was, is, 1)), is)
	}
}

// The namespace must allow the privileges that the pods request, and no more.
func TestTheSchemaOfTheNamespaceIsThatOfItsPods(t *testing.T) {
	require.Contains(t, buildManifests(t, kustomizations[0]), "pod-security.kubernetes.io/enforce: restricted")
	shared := buildManifests(t, "testdata/host-network")
	require.Contains(t, shared, "pod-security.kubernetes.io/enforce: privileged")
	require.Contains(t, shared, "hostNetwork: true")
	require.Contains(t, shared, "dnsPolicy: ClusterFirstWithHostNet")
	detected := buildManifests(t, "testdata/node-problem-detector")
	require.Contains(t, detected, "pod-security.kubernetes.io/enforce: privileged")
	require.NotContains(t, detected, "privileged: true")
	require.NotContains(t, detected, "hostNetwork")
}

// Of the base's restrictions the component lifts those that keep a file's capabilities from the tracer.
func TestTheSchemaOfApplicationsHasTheTracersPrivilegesAlone(t *testing.T) {
	manifests := buildManifests(t, "testdata/applications")
	for _, want := range []string{
		"pod-security.kubernetes.io/enforce: privileged", "hostPID: true", "allowPrivilegeEscalation: true",
		"runAsNonRoot: true", "readOnlyRootFilesystem: true", "type: RuntimeDefault", "events = true",
		"          capabilities:\n            add:\n            - BPF\n            - PERFMON\n            drop:\n            - ALL\n",
	} {
		require.Contains(t, manifests, want)
	}
	for _, other := range []string{"hostNetwork", "hostIPC", "hostPath", "privileged: true", "SYS_ADMIN"} {
		require.NotContains(t, manifests, other)
	}
	require.NotContains(t, buildManifests(t, kustomizations[0]), "hostPID")
}

// The component asks for the node's network and for nothing else that the base refuses. Key and list are the cluster's: what
// came with the component would be the key of all who forgot to make one.
func TestTheSchemaOfTheFabricHasTheNodesNetworkAlone(t *testing.T) {
	manifests := buildManifests(t, "testdata/fabric")
	for _, want := range []string{
		"pod-security.kubernetes.io/enforce: privileged", "hostNetwork: true", "dnsPolicy: ClusterFirstWithHostNet",
		"containerPort: 14791\n          hostPort: 14791\n", "fsGroup: 65532", "host = \"${NODE_NAME}\"",
		"name: rdma-events-peers\n          - secret:", "mode: 288\n", // 0440
		"allowPrivilegeEscalation: false", "runAsNonRoot: true", "readOnlyRootFilesystem: true", "type: RuntimeDefault",
		"          capabilities:\n            drop:\n            - ALL\n",
	} {
		require.Contains(t, manifests, want)
	}
	for _, other := range []string{"hostPID", "hostIPC", "hostPath", "privileged: true", "            add:\n", "kind: Secret\n"} {
		require.NotContains(t, manifests, other)
	}
	require.NotContains(t, buildManifests(t, kustomizations[0]), "14791")
}

// Both pods have to see one directory of the node, at the path that the plugin and the
// command use without an option.
func TestTheSchemaOfTheDetectorSharesOneDirectory(t *testing.T) {
	manifests := buildManifests(t, "testdata/node-problem-detector")
	require.Equal(t, 2, strings.Count(manifests, "path: /run/rdma_events-status"))
	require.Equal(t, 3, strings.Count(manifests, "mountPath: /run/rdma_events-status"))
	require.Contains(t, manifests, "- /run/rdma_events-status\n")
}

// The component asks for a directory and a file of the node, and an init container that gives the directory away. Nothing else
// of the base's restrictions is lifted.
func TestTheSchemaOfTheStateHasOneDirectoryAndTheMachineID(t *testing.T) {
	manifests := buildManifests(t, "testdata/state")
	for _, want := range []string{
		"pod-security.kubernetes.io/enforce: privileged", "allowPrivilegeEscalation: false", "runAsNonRoot: true", "readOnlyRootFilesystem: true",
		"name: STATE_DIRECTORY\n          value: /var/lib/rdma_events\n",
		"mountPath: /etc/machine-id\n          name: machine-id\n          readOnly: true\n",
		"path: /etc/machine-id\n          type: File\n", "path: /var/lib/rdma_events\n          type: DirectoryOrCreate\n",
	} {
		require.Contains(t, manifests, want)
	}
	require.Equal(t, 2, strings.Count(manifests, "hostPath:"))
	for _, other := range []string{"hostNetwork", "hostPID", "hostIPC", "privileged: true"} {
		require.NotContains(t, manifests, other)
	}
}

// Each component adds its init container, and none replaces that of another.
func TestTheSchemaOfComponentsTogetherKeepsAllInitContainers(t *testing.T) {
	manifests := buildManifests(t, "testdata/state-and-others")
	for _, want := range []string{
		"name: state-directory\n", "name: status-directory\n", "value: /run/rdma_events:/run/rdma_events-status\n", "value: /var/lib/rdma_events\n",
	} {
		require.Equal(t, 1, strings.Count(manifests, want), want)
	}
}

// Kustomize applies components after the files of an overlay, so the documents advise a component of one's own.
func TestSchemaOfOwnComponentReplacesComponentsConfiguration(t *testing.T) {
	manifests := buildManifests(t, "testdata/own-config")
	require.Contains(t, manifests, "traffic_class = 104")
	require.Contains(t, manifests, "objects = true")
	require.NotContains(t, manifests, "traffic_class = 0")
}
