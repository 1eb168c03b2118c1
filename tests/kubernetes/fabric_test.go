package kubernetes

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rdma_events/tests/rig"
)

const (
	fabricComponent = "packaging/kubernetes/components/fabric"
	fabricMount     = "/etc/rdma-events"
)

// projected is a volume of several sources.
type projected struct {
	Name      string
	Projected struct {
		Sources []struct {
			ConfigMap source `yaml:"configMap"`
			Secret    source
		}
	}
}

type source struct {
	Name  string
	Items []struct {
		Key, Path string
		Mode      fs.FileMode
	}
}

// fabricPatch returns the value that the component sets at a path of the DaemonSet.
func fabricPatch(t *testing.T, path string) yaml.Node {
	t.Helper()
	return patchValues(t, fabricComponent, path)[0]
}

// mountVolume writes the files of a volume as the kubelet does for a pod with an fsGroup: each file is a link into a directory that
// is replaced as a whole, and the group may read it (pkg/volume/util/atomic_writer.go and pkg/volume/volume_linux.go of Kubernetes).
func mountVolume(t *testing.T, v *projected, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..1"), 0o755))
	require.NoError(t, os.Symlink("..1", filepath.Join(dir, "..data")))
	for _, s := range v.Projected.Sources {
		for _, item := range append(s.ConfigMap.Items, s.Secret.Items...) {
			path := filepath.Join(dir, "..1", item.Path)
			require.NoError(t, os.WriteFile(path, []byte(contents[item.Key]), 0o600))
			require.NoError(t, os.Chmod(path, item.Mode|0o440))
			require.NoError(t, os.Symlink(filepath.Join("..data", item.Path), filepath.Join(dir, item.Path)))
		}
	}
	return dir
}

func fabricVolume(t *testing.T) *projected {
	t.Helper()
	var v projected
	node := fabricPatch(t, "volumes/-")
	require.NoError(t, node.Decode(&v))
	return &v
}

// checkFabric has the program check the component's configuration, with the files of a volume, as a node.
func checkFabric(t *testing.T, v *projected, node string) (out string, err error) {
	t.Helper()
	dir := mountVolume(t, v, map[string]string{"peers": "node-1 rack-1 10.0.1.1\n", "fabric.key": "0123456789abcdef0123456789abcdef"})
	text, err := os.ReadFile(filepath.Join(root, fabricComponent, "rdma_events.conf"))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(text), fabricMount+"/"))
	config := filepath.Join(t.TempDir(), "rdma_events.conf")
	require.NoError(t, os.WriteFile(config, []byte(strings.ReplaceAll(string(text), fabricMount, dir)), 0o600))
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "check", "-config", config)
	cmd.Env = append(os.Environ(), "NODE_NAME="+node)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

func TestThePodsFabricTakesItsFilesAsTheKubeletMountsThem(t *testing.T) {
	v := fabricVolume(t)
	out, err := checkFabric(t, v, "node-1")
	require.NotContains(t, out, "E!")
	if err != nil { // the host may have no device
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, out)
		require.Equal(t, 1, exit.ExitCode(), out)
	}

	// With the mode that Kubernetes gives the files of a Secret by itself the key is refused.
	v.Projected.Sources[1].Secret.Items[0].Mode = 0o644
	out, err = checkFabric(t, v, "node-1")
	require.Error(t, err)
	require.Contains(t, out, "its mode is 0644")
}

// The volume's files belong to the group of the plugin's user.
func TestThePodsFabricMayReadItsKey(t *testing.T) {
	p, _ := daemonSetPod(t)
	group := fabricPatch(t, "securityContext/fsGroup")
	var number int
	require.NoError(t, group.Decode(&number))
	require.Equal(t, p.SecurityContext.RunAsGroup, number)
	v := fabricVolume(t)
	require.Equal(t, fs.FileMode(0o440), v.Projected.Sources[1].Secret.Items[0].Mode)
	var m Mount
	mounted := fabricPatch(t, "containers/0/volumeMounts/-")
	require.NoError(t, mounted.Decode(&m))
	require.Equal(t, Mount{Name: v.Name, Path: fabricMount, ReadOnly: true}, m)
}
