//go:build schema

package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// renderChart returns what `helm template` makes of the chart with these values, or its error. NAMESPACE=other is no value: it selects the
// namespace. FILE=key=path sets a value to the content of a file.
func renderChart(t *testing.T, values ...string) (string, error) {
	t.Helper()
	tool := filepath.Join(root, "build/tools/helm")
	require.FileExists(t, tool, "run: make test-chart")
	namespace := "rdma-events"
	args := []string{"template", "rdma-events", filepath.Join(root, "packaging/kubernetes/chart")}
	for _, v := range values {
		if other, found := strings.CutPrefix(v, "NAMESPACE="); found {
			namespace = other
			continue
		}
		if fromFile, found := strings.CutPrefix(v, "FILE="); found {
			args = append(args, "--set-file", fromFile)
			continue
		}
		args = append(args, "--set", v)
	}
	args = append(args, "--namespace", namespace)
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Env = []string{"HOME=" + t.TempDir()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.New(stderr.String())
	}
	return stdout.String(), nil
}

// chartValues are the values of the chart that stand for each kustomization.
var chartValues = map[string][]string{
	filepath.Join(root, "packaging/kubernetes/base"): nil,
	"testdata/host-network":                          {"components.host-network=true"},
	"testdata/prometheus":                            {"components.prometheus=true"},
	"testdata/places":                                {"components.prometheus=true", "components.places=true"},
	"testdata/node-problem-detector":                 {"components.node-problem-detector=true"},
	"testdata/applications":                          {"components.applications=true"},
	"testdata/fabric":                                {"components.fabric=true"},
	"testdata/state":                                 {"components.state=true"},
	"testdata/own-config":                            {"components.applications=true", "components.fabric=true", ownConfig},
	"testdata/state-and-others": {
		"components.state=true", "components.applications=true", "components.node-problem-detector=true", "components.host-network=true",
	},
}

// ownConfig is the one file with the sections of two components.
const ownConfig = "FILE=config.rdma_events\\.conf=testdata/own-config/config/rdma_events.conf"

var images = []string{"image.repository=rdma-events", "detectorImage.repository=node-problem-detector"}

// The chart is a second way to the same objects. What only one of both may have are the hash in the name of a ConfigMap, the
// checksum of its content, and the tags of images.
func TestChartMakesTheObjectsOfTheKustomization(t *testing.T) {
	for dir, values := range chartValues {
		chart, err := renderChart(t, append(values, images...)...)
		require.NoError(t, err, dir)
		want, got := objectsOf(t, buildManifests(t, inNamespace(t, dir))), objectsOf(t, chart)
		delete(want, "ConfigMap rdma-events-peers") // the cluster's own
		delete(want, "Namespace rdma-events")       // has to be there before the release
		require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)), dir)
		for name := range want {
			require.Equal(t, want[name], got[name], "%s: %s", dir, name)
		}
		require.Empty(t, schemaComplaints(t, chart), dir)
	}
}

var (
	configHash = regexp.MustCompile(`(name: (?:rdma-events|rdma-problem-detector))-[0-9a-z]{10}\b`)
	imageTag   = regexp.MustCompile(`(image: (?:rdma-events|node-problem-detector)):\S+`)
)

// inNamespace returns a kustomization that puts all objects of another one into a namespace, as a user's does.
func inNamespace(t *testing.T, dir string) string {
	t.Helper()
	from, err := filepath.Abs(dir)
	require.NoError(t, err)
	overlay := t.TempDir()
	relative, err := filepath.Rel(overlay, from)
	require.NoError(t, err)
	text := "namespace: rdma-events\nresources:\n  - " + relative + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600))
	return overlay
}

// objectsOf returns the objects of manifests as YAML, by kind and name.
func objectsOf(t *testing.T, manifests string) map[string]string {
	t.Helper()
	manifests = imageTag.ReplaceAllString(configHash.ReplaceAllString(manifests, "$1"), "$1")
	objects := map[string]string{}
	decoder := yaml.NewDecoder(strings.NewReader(manifests))
	for {
		var o map[string]any
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		name := o["kind"].(string) + " " + o["metadata"].(map[string]any)["name"].(string)
		require.NotContains(t, objects, name)
		if o["kind"] == "DaemonSet" {
			pod := o["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
			if annotations, ok := pod["annotations"].(map[string]any); ok {
				delete(annotations, "checksum/config")
				if len(annotations) == 0 {
					delete(pod, "annotations")
				}
			}
		}
		text, err := yaml.Marshal(o)
		require.NoError(t, err)
		objects[name] = string(text)
	}
}

// A component that is added to the kustomization has to be a value of the chart.
func TestChartHasEachComponent(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "packaging/kubernetes/chart/values.yaml"))
	require.NoError(t, err)
	var values struct{ Components map[string]bool }
	require.NoError(t, yaml.Unmarshal(text, &values))
	entries, err := os.ReadDir(filepath.Join(root, "packaging/kubernetes/components"))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(values.Components)))
	for name := range values.Components {
		tried := slices.ContainsFunc(slices.Collect(maps.Values(chartValues)), func(set []string) bool {
			return slices.Contains(set, "components."+name+"=true")
		})
		require.True(t, tried, "%s is compared with the kustomization", name)
	}
}

func TestChartTakesItsValues(t *testing.T) {
	chart, err := renderChart(t, "image.repository=registry.example.com/rdma-events", "image.tag=v9", "config.output\\.conf=mine",
		"patches[0].target.kind=DaemonSet", "patches[0].target.name=rdma-events",
		"patches[0].patch[0].op=replace", "patches[0].patch[0].path=/spec/template/spec/tolerations", "patches[0].patch[0].value=null",
		"patches[0].patch[1].op=add", "patches[0].patch[1].path=/spec/template/spec/containers/0/env/-", "patches[0].patch[1].value.name=A")
	require.NoError(t, err)
	require.Contains(t, chart, "image: registry.example.com/rdma-events:v9")
	require.Contains(t, chart, "output.conf: mine")
	require.NotContains(t, chart, "operator: Exists")
	require.Contains(t, chart, "- name: A\n")
	other, err := renderChart(t, "image.repository=registry.example.com/rdma-events")
	require.NoError(t, err)
	checksum := regexp.MustCompile(`checksum/config: \S+`)
	require.NotEqual(t, checksum.FindString(chart), checksum.FindString(other), "another configuration replaces the pods")
}

func TestChartHasTheResourceAndTheTolerationsOfItsValues(t *testing.T) {
	chart, err := renderChart(t, append(images, "components.node-problem-detector=true", "resource=rdma/mlx_pool",
		"tolerations[0].key=nvidia.com/gpu", "tolerations[0].operator=Exists")...)
	require.NoError(t, err)
	require.Contains(t, chart, "rdma/mlx_pool: 1\n")
	require.NotContains(t, chart, "hca_shared_devices_a")
	require.Equal(t, 2, strings.Count(chart, "      tolerations:\n      - key: nvidia.com/gpu\n        operator: Exists\n"), "of both DaemonSets")
	require.Empty(t, schemaComplaints(t, chart))
}

// Helm refuses an object that another release has made.
func TestChartGivesObjectsOfTheClusterNamesOfTheirNamespace(t *testing.T) {
	chart, err := renderChart(t, append(images, "components.node-problem-detector=true")...)
	require.NoError(t, err)
	other, err := renderChart(t, append(images, "components.node-problem-detector=true", "NAMESPACE=other")...)
	require.NoError(t, err)
	for name := range objectsOf(t, chart) {
		if strings.HasPrefix(name, "PriorityClass ") || strings.HasPrefix(name, "ClusterRoleBinding ") {
			require.NotContains(t, objectsOf(t, other), name)
			require.Contains(t, objectsOf(t, other), name+"-other")
		}
	}
	require.Contains(t, other, "priorityClassName: rdma-events-other\n")
	require.Empty(t, schemaComplaints(t, other))
}

func TestChartTakesAnImageByItsDigest(t *testing.T) {
	const digest = "registry.example.com/rdma-events@sha256:0123"
	chart, err := renderChart(t, "image.repository="+digest)
	require.NoError(t, err)
	require.Contains(t, chart, "image: "+digest+"\n")
}

func TestChartNamesTheValueThatIsWrong(t *testing.T) {
	for want, values := range map[string][]string{
		"set image.repository":         nil,
		"set detectorImage.repository": {images[0], "components.node-problem-detector=true"},
		"components.places needs":      {images[0], "components.places=true"},
		"only one can be used":         {images[0], "components.applications=true", "components.fabric=true"},
		"components":                   {images[0], "components.prometeus=true"},
		"resource":                     {images[0], "resource=mlx_pool"},
		"there is no DaemonSet other to patch": {images[0], "patches[0].target.kind=DaemonSet", "patches[0].target.name=other",
			"patches[0].patch[0].op=add", "patches[0].patch[0].path=/a", "patches[0].patch[0].value=1"},
		"has a path that does not exist: /spec/none/a": {images[0], "patches[0].target.kind=DaemonSet", "patches[0].target.name=rdma-events",
			"patches[0].patch[0].op=add", "patches[0].patch[0].path=/spec/none/a", "patches[0].patch[0].value=1"},
	} {
		_, err := renderChart(t, values...)
		require.ErrorContains(t, err, want)
	}
}
