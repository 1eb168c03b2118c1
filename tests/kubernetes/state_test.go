package kubernetes

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const (
	stateComponent = "packaging/kubernetes/components/state"
	// The directory that rdma-events events, forget and report read by themselves, and machine-id(5).
	stateDirectory = "/var/lib/rdma_events"
	machineID      = "/etc/machine-id"
)

// decodeNodes decodes YAML nodes into values of type T.
func decodeNodes[T any](t *testing.T, nodes []yaml.Node) []T {
	t.Helper()
	values := make([]T, len(nodes))
	for i, n := range nodes {
		require.NoError(t, n.Decode(&values[i]))
	}
	return values
}

// hostPath is a volume that is a part of the node's file system.
type hostPath struct {
	Name     string
	HostPath struct{ Path, Type string } `yaml:"hostPath"`
}

// A pod that is replaced finds the memory of the one before, and recognizes the machine: directory and machine ID are the
// node's, where the plugin looks for them.
func TestThePodsStateIsTheNodes(t *testing.T) {
	at := map[string]string{stateDirectory: "DirectoryOrCreate", machineID: "File"}
	mounts := decodeNodes[Mount](t, patchValues(t, stateComponent, "containers/0/volumeMounts/-"))
	volumes := decodeNodes[hostPath](t, patchValues(t, stateComponent, "volumes/-"))
	require.Len(t, mounts, len(at))
	require.Len(t, volumes, len(at))
	for i, v := range volumes {
		require.Equal(t, at[v.HostPath.Path], v.HostPath.Type, v.Name)
		require.Equal(t, Mount{Name: v.Name, Path: v.HostPath.Path, ReadOnly: v.HostPath.Path == machineID}, mounts[i])
	}
	env := decodeNodes[struct{ Name, Value string }](t, patchValues(t, stateComponent, "containers/0/env/-"))
	require.Len(t, env, 1)
	require.Equal(t, "STATE_DIRECTORY", env[0].Name)
	require.Equal(t, stateDirectory, env[0].Value)
	_, c := daemonSetPod(t)
	require.Equal(t, "NODE_NAME", c.Env[0].Name, "the plugin takes the record's host from it")
}

// The node makes the directory for root, and the plugin's user has to write into it. Nobody else may read it.
func TestThePodsUserGetsTheStateDirectory(t *testing.T) {
	p, _ := daemonSetPod(t)
	inits := decodeNodes[Container](t, patchValues(t, stateComponent, "initContainers/-"))
	require.Len(t, inits, 1)
	user, group := fmt.Sprint(p.SecurityContext.RunAsUser), fmt.Sprint(p.SecurityContext.RunAsGroup)
	require.Equal(t, []string{"/usr/bin/install", "-d", "-m", "0700", "-o", user, "-g", group, stateDirectory}, inits[0].Command)
	require.Len(t, inits[0].VolumeMounts, 1)
	require.Equal(t, stateDirectory, inits[0].VolumeMounts[0].Path)
	s := inits[0].SecurityContext
	require.False(t, s.Privileged || *s.AllowPrivilegeEscalation)
	require.True(t, s.ReadOnlyRootFilesystem)
	require.Equal(t, []string{"ALL"}, s.Capabilities.Drop)
	require.Equal(t, []string{"CHOWN", "FOWNER"}, s.Capabilities.Add)
	require.Equal(t, "rdma_events", filepath.Base(stateDirectory), "the plugin takes the one of this name")
}
