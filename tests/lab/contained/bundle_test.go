//go:build guest

package contained

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rdma_events/tests/kubernetes"
)

const (
	root    = "../../.."
	seccomp = "/usr/share/containers/seccomp.json"
	// memlock is the limit that systemd sets for services, including a container runtime.
	memlock = 8 << 20
)

type object = map[string]any

// writeBundle writes the OCI runtime config.json that the kubelet would make of the DaemonSet, with device nodes from a device
// plugin. config is the directory of the ConfigMap, more are additional mounts. It returns the directory of the bundle.
func writeBundle(t *testing.T, nodes []string, config string, more ...object) string {
	t.Helper()
	dir := t.TempDir()
	runCommand(t, "crun", "spec", "-b", dir)
	path := filepath.Join(dir, "config.json")
	spec := readJSON(t, path)
	pod, err := kubernetes.ReadDaemonSet(root)
	if err != nil {
		t.Fatal(err)
	}
	command, err := kubernetes.ReadCommand(root)
	if err != nil {
		t.Fatal(err)
	}
	c := pod.Containers[0]
	spec["root"] = object{"path": os.Getenv("RDMA_EVENTS_ROOTFS"), "readonly": c.SecurityContext.ReadOnlyRootFilesystem}
	spec["process"] = object{
		"args": command, "cwd": "/", "terminal": false,
		"env": containerEnvironment(c),
		"user": object{
			"uid": pod.SecurityContext.RunAsUser, "gid": pod.SecurityContext.RunAsGroup,
			"additionalGids": pod.SecurityContext.SupplementalGroups,
		},
		"noNewPrivileges": !*c.SecurityContext.AllowPrivilegeEscalation,
		"capabilities":    object{},
		"rlimits": []object{
			{"type": "RLIMIT_MEMLOCK", "soft": memlock, "hard": memlock},
			{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 524288},
		},
	}
	mounts := spec["mounts"].([]any)
	for _, m := range volumeMounts(t, pod, config) {
		mounts = append(mounts, m)
	}
	for _, m := range more {
		mounts = append(mounts, m)
	}
	spec["mounts"] = mounts
	linux := spec["linux"].(object)
	linux["cgroupsPath"] = "/" + filepath.Base(dir)
	linux["seccomp"] = runtimeDefault(t)
	devices, rules := deviceNodes(t, nodes)
	linux["devices"] = devices
	linux["resources"] = object{"devices": append([]object{{"allow": false, "access": "rwm"}}, rules...)}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func containerEnvironment(c kubernetes.Container) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, v := range c.Env {
		if v.Value == "" {
			v.Value = "node-1" // from a field of the pod
		}
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// volumeMounts returns the mounts of the pod's volumes: a directory for the ConfigMap, and a tmpfs for each emptyDir. The kubelet
// lets all users write to an emptyDir.
func volumeMounts(t *testing.T, pod kubernetes.Pod, config string) []object {
	t.Helper()
	var mounts []object
	for _, m := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil:
				mounts = append(mounts, object{"destination": m.Path, "type": "bind", "source": config, "options": []string{"bind", "ro"}})
			case v.EmptyDir != nil:
				size := "size=" + strings.ToLower(strings.TrimSuffix(v.EmptyDir.SizeLimit, "i"))
				mounts = append(mounts, object{"destination": m.Path, "type": "tmpfs", "source": "tmpfs", "options": []string{"mode=0777", size}})
			}
		}
	}
	if len(mounts) != len(pod.Containers[0].VolumeMounts) {
		t.Fatalf("want all mounts of %v, got %v", pod.Containers[0].VolumeMounts, mounts)
	}
	return mounts
}

// deviceNodes returns what the kubelet makes of a device plugin's answer: nodes
// like the host's, and the permission to open them.
func deviceNodes(t *testing.T, nodes []string) (devices, rules []object) {
	t.Helper()
	for _, path := range nodes {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatalf("stat %s: %v", path, err)
		}
		number := object{"type": "c", "major": unix.Major(st.Rdev), "minor": unix.Minor(st.Rdev)}
		device := object{"path": path, "fileMode": st.Mode & 0o777, "uid": st.Uid, "gid": st.Gid}
		rule := object{"allow": true, "access": "rwm"}
		for k, v := range number {
			device[k], rule[k] = v, v
		}
		devices, rules = append(devices, device), append(rules, rule)
	}
	return devices, rules
}

// runtimeDefault returns the default seccomp profile of Podman and CRI-O, as they
// pass it to a runtime for a container without capabilities on amd64.
func runtimeDefault(t *testing.T) object {
	t.Helper()
	var profile struct {
		DefaultAction   string
		DefaultErrnoRet int
		Syscalls        []struct {
			Names    []string
			Action   string
			Args     []object
			ErrnoRet *int
			Includes struct{ Arches, Caps []string }
		}
	}
	text, err := os.ReadFile(seccomp)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &profile); err != nil {
		t.Fatal(err)
	}
	var calls []object
	for _, s := range profile.Syscalls {
		if len(s.Includes.Caps) > 0 || len(s.Includes.Arches) > 0 && !strings.Contains(strings.Join(s.Includes.Arches, " "), "amd64") {
			continue
		}
		call := object{"names": s.Names, "action": s.Action}
		if len(s.Args) > 0 {
			call["args"] = s.Args
		}
		if s.ErrnoRet != nil {
			call["errnoRet"] = *s.ErrnoRet
		}
		calls = append(calls, call)
	}
	return object{
		"defaultAction": profile.DefaultAction, "defaultErrnoRet": profile.DefaultErrnoRet,
		"architectures": []string{"SCMP_ARCH_X86_64"}, "syscalls": calls,
	}
}

func readJSON(t *testing.T, path string) object {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func runCommand(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
