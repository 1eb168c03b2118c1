package kubernetes

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

func daemonSetPod(t *testing.T) (Pod, Container) {
	t.Helper()
	p, err := ReadDaemonSet(root)
	require.NoError(t, err)
	require.Len(t, p.Containers, 1)
	return p, p.Containers[0]
}

// The fields are those of the level "restricted" of Kubernetes' Pod Security
// Standards, which the namespace enforces.
func TestThePodAsksForNoPrivilege(t *testing.T) {
	p, c := daemonSetPod(t)
	require.True(t, p.SecurityContext.RunAsNonRoot)
	require.NotZero(t, p.SecurityContext.RunAsUser)
	require.NotZero(t, p.SecurityContext.RunAsGroup)
	require.Equal(t, "RuntimeDefault", p.SecurityContext.SeccompProfile.Type)
	require.False(t, p.HostNetwork || p.HostPID || p.HostIPC || c.SecurityContext.Privileged)
	require.False(t, *p.AutomountServiceAccountToken)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.True(t, c.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []string{"ALL"}, c.SecurityContext.Capabilities.Drop)
	require.Empty(t, c.SecurityContext.Capabilities.Add)
	require.Empty(t, p.InitContainers)
	for _, v := range p.Volumes {
		require.Nil(t, v.HostPath, v.Name)
	}
}

// Telegraf does not wait for processes that it has not started. The init does;
// tests/lab/contained tests that.
func TestImageStartsWithAnInit(t *testing.T) {
	command, err := ReadCommand(root)
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/bin/tini", "-s", "--", "/usr/bin/telegraf"}, command[:min(4, len(command))])
}

func TestEachMountHasItsVolumeAndTheProbeItsPort(t *testing.T) {
	p, c := daemonSetPod(t)
	var volumes, mounts, ports []string
	for _, v := range p.Volumes {
		require.True(t, (v.ConfigMap == nil) != (v.EmptyDir == nil), v.Name)
		volumes = append(volumes, v.Name)
	}
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name)
	}
	require.ElementsMatch(t, volumes, mounts)
	for _, port := range c.Ports {
		ports = append(ports, port.Name)
	}
	require.Contains(t, ports, c.LivenessProbe.HTTPGet.Port)
}

// The root file system is read-only. rdma-events events and report need a directory for temporary files.
func TestThePodHasARoomyTemporaryDirectory(t *testing.T) {
	p, c := daemonSetPod(t)
	mounted := slices.IndexFunc(c.VolumeMounts, func(m Mount) bool { return m.Path == "/tmp" && !m.ReadOnly })
	require.NotEqual(t, -1, mounted)
	volume := slices.IndexFunc(p.Volumes, func(v Volume) bool { return v.Name == c.VolumeMounts[mounted].Name })
	require.NotEqual(t, -1, volume)
	require.NotNil(t, p.Volumes[volume].EmptyDir)
	require.Empty(t, p.Volumes[volume].EmptyDir.Medium, "in memory it would count against the container's limit")
	require.Regexp(t, `^[1-9][0-9]{2,}Mi$`, p.Volumes[volume].EmptyDir.SizeLimit)
}

// The published schema accepts any text as a quantity.
func TestTheResourcesAreQuantities(t *testing.T) {
	_, c := daemonSetPod(t)
	for _, list := range []map[string]string{c.Resources.Requests, c.Resources.Limits} {
		require.NotEmpty(t, list)
		for name, quantity := range list {
			require.Regexp(t, `^[1-9][0-9]*(m|Mi)?$`, quantity, name)
		}
	}
	require.NotContains(t, c.Resources.Limits, "cpu", "a throttled plugin measures its limit")
}

// The command line is part of the image; the files that it names are in the
// ConfigMap.
func TestTheImageStartsWithTheFilesOfTheConfigMap(t *testing.T) {
	command, err := ReadCommand(root)
	require.NoError(t, err)
	telegraf, err := os.ReadFile(filepath.Join(Base(root), "telegraf.conf"))
	require.NoError(t, err)
	var files []string
	for _, named := range regexp.MustCompile(`/etc/telegraf/([a-z_.]+)`).FindAllStringSubmatch(strings.Join(command, " ")+string(telegraf), -1) {
		files = append(files, named[1])
	}
	var kustomization struct {
		ConfigMapGenerator []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
	}
	text, err := os.ReadFile(filepath.Join(Base(root), "kustomization.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &kustomization))
	require.Len(t, kustomization.ConfigMapGenerator, 1)
	p, c := daemonSetPod(t)
	require.Empty(t, append(c.Command, c.Args...))
	require.Equal(t, kustomization.ConfigMapGenerator[0].Name, p.Volumes[0].ConfigMap.Name)
	require.ElementsMatch(t, kustomization.ConfigMapGenerator[0].Files, files)
}

// patchValues returns the values that a component adds at a path of the DaemonSet's pod.
func patchValues(t *testing.T, component, path string) (values []yaml.Node) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, component, "kustomization.yaml"))
	require.NoError(t, err)
	var k struct {
		Patches []struct{ Patch string }
	}
	require.NoError(t, yaml.Unmarshal(text, &k))
	require.NotEmpty(t, k.Patches)
	var operations []struct {
		Op, Path string
		Value    yaml.Node
	}
	require.NoError(t, yaml.Unmarshal([]byte(k.Patches[0].Patch), &operations))
	for _, o := range operations {
		if o.Path == "/spec/template/spec/"+path {
			require.Equal(t, "add", o.Op)
			values = append(values, o.Value)
		}
	}
	require.NotEmpty(t, values, "the component sets nothing at "+path)
	return values
}
