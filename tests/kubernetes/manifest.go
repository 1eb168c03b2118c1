package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Pod is the part of a pod's specification (pod.spec in Kubernetes' API) that a
// container runtime gets.
type Pod struct {
	SecurityContext struct {
		RunAsNonRoot       bool           `yaml:"runAsNonRoot"`
		RunAsUser          int            `yaml:"runAsUser"`
		RunAsGroup         int            `yaml:"runAsGroup"`
		SupplementalGroups []int          `yaml:"supplementalGroups"`
		SeccompProfile     SeccompProfile `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	AutomountServiceAccountToken *bool       `yaml:"automountServiceAccountToken"`
	HostNetwork                  bool        `yaml:"hostNetwork"`
	HostPID                      bool        `yaml:"hostPID"`
	HostIPC                      bool        `yaml:"hostIPC"`
	InitContainers               []Container `yaml:"initContainers"`
	Containers                   []Container
	Volumes                      []Volume
}

// SeccompProfile names the filter of system calls.
type SeccompProfile struct{ Type string }

// Container is one container of a pod.
type Container struct {
	Name, Image     string
	Command, Args   []string
	Env             []struct{ Name, Value string }
	Ports           []Port
	LivenessProbe   *Probe `yaml:"livenessProbe"`
	SecurityContext struct {
		Privileged               bool
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Add, Drop []string }
	} `yaml:"securityContext"`
	Resources    struct{ Requests, Limits map[string]string }
	VolumeMounts []Mount `yaml:"volumeMounts"`
}

// Port is a port that a container listens on.
type Port struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
}

// Probe is the request by which Kubernetes checks that a container is alive.
type Probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// Mount is where a container has a volume.
type Mount struct {
	Name     string
	Path     string `yaml:"mountPath"`
	ReadOnly bool   `yaml:"readOnly"`
}

// Volume is one volume of a pod, of one of the kinds that this project uses.
type Volume struct {
	Name      string
	ConfigMap *struct{ Name string } `yaml:"configMap"`
	EmptyDir  *struct {
		Medium    string
		SizeLimit string `yaml:"sizeLimit"`
	} `yaml:"emptyDir"`
	HostPath any `yaml:"hostPath"`
}

// Base is the directory of the kustomize base below the project's root.
func Base(root string) string { return filepath.Join(root, "packaging/kubernetes/base") }

// ReadDaemonSet returns the pod of the base's DaemonSet.
func ReadDaemonSet(root string) (Pod, error) {
	return ReadPod(filepath.Join(Base(root), "daemonset.yaml"))
}

// ReadPod returns the pod of a DaemonSet in a file.
func ReadPod(path string) (Pod, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Pod{}, fmt.Errorf("read manifest: %w", err)
	}
	var set struct {
		Spec struct{ Template struct{ Spec Pod } }
	}
	if err := yaml.Unmarshal(text, &set); err != nil {
		return Pod{}, fmt.Errorf("read manifest: %w", err)
	}
	return set.Spec.Template.Spec, nil
}

var argumentLists = regexp.MustCompile(`(?m)^(?:ENTRYPOINT|CMD) (.*)$`)

// ReadCommand returns the command line that the image starts with.
func ReadCommand(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "packaging/container/Dockerfile"))
	if err != nil {
		return nil, fmt.Errorf("read Dockerfile: %w", err)
	}
	var command []string
	for _, line := range argumentLists.FindAllSubmatch(text, -1) {
		var arguments []string
		if err := json.Unmarshal(line[1], &arguments); err != nil {
			return nil, fmt.Errorf("read Dockerfile: %s: %w", line[0], err)
		}
		command = append(command, arguments...)
	}
	return command, nil
}
