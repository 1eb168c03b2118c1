package identity

import "strings"

// Unit returns what the host's administrator calls the place of a process, from its /proc/PID/cgroup: the innermost of
//
//	pod_UID        a pod of Kubernetes, whatever its runtime and cgroup driver
//	job_ID         a job of Slurm
//	docker_ID12    a container of Docker, by the first twelve digits of its ID
//	NAME.service   a service of systemd
//
// and "" if it is in none. A container directly below its pod is part of the pod. With cgroup v1 there are several
// hierarchies: a pod, job or container in any of them goes before a service, since Slurm, for one, leaves its processes in
// slurmd.service where it limits nothing; then the deepest counts. A unit has only characters of [A-Za-z0-9_.:@-].
func Unit(cgroup string) string {
	var best found
	for line := range strings.Lines(cgroup) {
		if f := innermost(levels(line)); f.better(best) {
			best = f
		}
	}
	return best.unit
}

// found is a unit and how it was found.
type found struct {
	unit    string
	service bool
	depth   int
}

func (f found) better(than found) bool {
	switch {
	case f.unit == "" || than.unit == "":
		return f.unit != ""
	case f.service != than.service:
		return !f.service
	}
	return f.depth > than.depth
}

// levels returns the names in a line of /proc/PID/cgroup, outermost first: hierarchy, controllers and path, parted by
// colons (cgroups(7)). The path may have colons of its own.
func levels(line string) []string {
	line = strings.TrimSuffix(strings.TrimRight(line, "\r\n"), " (deleted)")
	_, rest, ok := strings.Cut(line, ":")
	if !ok {
		return nil
	}
	_, path, ok := strings.Cut(rest, ":")
	if !ok || !strings.HasPrefix(path, "/") {
		return nil
	}
	return strings.Split(path[1:], "/")
}

func innermost(levels []string) found {
	for i := len(levels) - 1; i >= 0; i-- {
		above := levels[:i]
		if uid := pod(levels[i]); uid != "" {
			return found{unit: "pod_" + uid, depth: i}
		}
		if isJob(levels[i], above) {
			return found{unit: levels[i], depth: i}
		}
		if id := docker(levels[i], above); id != "" {
			return found{unit: "docker_" + id, depth: i}
		}
		if name := service(levels[i]); name != "" {
			return found{unit: name, service: true, depth: i}
		}
	}
	return found{}
}

// pod returns the UID of a pod's level: podUID with the kubelet's cgroupfs driver, kubepods[-CLASS]-podUID.slice with its
// systemd driver, which has underscores for dashes, and that name with ":cri-containerd:ID" after it where containerd and
// kubelet disagree on the driver. A UID is a UUID; that of a pod from a file is 32 digits.
func pod(level string) string {
	name, _, _ := strings.Cut(level, ":")
	name, systemd := strings.CutSuffix(name, ".slice")
	if systemd {
		_, uid, ok := cutLast(name, "-pod")
		if !ok || !strings.Contains(name, "kubepods") {
			return ""
		}
		return podUID(strings.ReplaceAll(uid, "_", "-"))
	}
	uid, ok := strings.CutPrefix(name, "pod")
	if !ok {
		return ""
	}
	return podUID(uid)
}

func podUID(uid string) string {
	const digits, groups = 32, 5
	plain := strings.ReplaceAll(uid, "-", "")
	if len(plain) != digits || !isHex(plain) {
		return ""
	}
	if n := strings.Count(uid, "-"); n != 0 && n != groups-1 {
		return ""
	}
	return uid
}

// isJob says whether a level is that of a Slurm job: below slurm or slurm_NODE with cgroup v1, below slurmstepd.scope or
// NODE_slurmstepd.scope with v2. Steps and tasks are below it. Any user may call a cgroup of his own job_7, so one of Slurm
// has to be above.
func isJob(level string, above []string) bool {
	id, ok := strings.CutPrefix(level, "job_")
	if !ok || id == "" || strings.Trim(id, "0123456789") != "" {
		return false
	}
	for _, a := range above {
		if a == "slurm" || strings.HasPrefix(a, "slurm_") || a == "slurmstepd.scope" || strings.HasSuffix(a, "_slurmstepd.scope") {
			return true
		}
	}
	return false
}

// docker returns the short ID of a container's level: docker/ID with Docker's cgroupfs driver, docker-ID.scope with its
// systemd driver. Directly below a pod it is the pod's, and "" is returned.
func docker(level string, above []string) string {
	const digits, short = 64, 12
	id, named := strings.CutPrefix(level, "docker-")
	if named {
		id, named = strings.CutSuffix(id, ".scope")
	}
	if len(above) > 0 {
		parent := above[len(above)-1]
		if pod(parent) != "" {
			return ""
		}
		named = named || parent == "docker"
	}
	if !named || len(id) != digits || !isHex(id) {
		return ""
	}
	return id[:short]
}

// service returns the name of a service with its foreign characters replaced; systemd has escapes with a backslash.
func service(level string) string {
	const suffix, longest = ".service", 255 // systemd.unit(5)
	if name, ok := strings.CutSuffix(level, suffix); !ok || name == "" || len(level) > longest {
		return ""
	}
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("_.:@-", r):
			return r
		}
		return '_'
	}, level)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }
