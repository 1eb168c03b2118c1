package identity

import "strings"

// Unit returns the administrative unit of a process from the content of its /proc/PID/cgroup: the innermost of
//
//	pod_UID        a pod of Kubernetes, with any runtime and cgroup driver
//	job_ID         a job of Slurm
//	docker_ID12    a container of Docker, by the first twelve digits of its ID
//	NAME.service   a service of systemd
//
// It returns "" if the process is in none of them. A container directly below its pod is part of the pod. With cgroup v1 there are several
// hierarchies. A pod, job or container in any of them has precedence over a service, because Slurm, for example, leaves its processes in
// slurmd.service in hierarchies in which it limits nothing. Otherwise the deepest unit has precedence. A unit has only characters of
// [A-Za-z0-9_.:@-].
func Unit(cgroup string) string {
	var best unitMatch
	for line := range strings.Lines(cgroup) {
		if f := innermostUnit(cgroupLevels(line)); f.isBetter(best) {
			best = f
		}
	}
	return best.unit
}

// unitMatch is a unit with its kind and its depth in the cgroup path.
type unitMatch struct {
	unit    string
	service bool
	depth   int
}

func (f unitMatch) isBetter(than unitMatch) bool {
	switch {
	case f.unit == "" || than.unit == "":
		return f.unit != ""
	case f.service != than.service:
		return !f.service
	}
	return f.depth > than.depth
}

// cgroupLevels returns the components of the path in a line of /proc/PID/cgroup, outermost first. A line has hierarchy, controllers and
// path, separated by colons (cgroups(7)). The path itself may contain colons.
func cgroupLevels(line string) []string {
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

func innermostUnit(levels []string) unitMatch {
	for i := len(levels) - 1; i >= 0; i-- {
		above := levels[:i]
		if uid := podOf(levels[i]); uid != "" {
			return unitMatch{unit: "pod_" + uid, depth: i}
		}
		if isJob(levels[i], above) {
			return unitMatch{unit: levels[i], depth: i}
		}
		if id := dockerID(levels[i], above); id != "" {
			return unitMatch{unit: "docker_" + id, depth: i}
		}
		if name := serviceName(levels[i]); name != "" {
			return unitMatch{unit: name, service: true, depth: i}
		}
	}
	return unitMatch{}
}

// podOf returns the UID of a pod's level. The level is podUID with the kubelet's cgroupfs driver, and kubepods[-CLASS]-podUID.slice with
// its systemd driver, which replaces dashes by underscores. ":cri-containerd:ID" follows the latter if containerd and kubelet use different
// drivers. A UID is a UUID, or 32 digits for a pod from a file.
func podOf(level string) string {
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

// isJob reports whether a level is the level of a Slurm job. It is below slurm or slurm_NODE with cgroup v1, and below slurmstepd.scope or
// NODE_slurmstepd.scope with v2. Steps and tasks are below it. Any user may name a cgroup job_7, so one of Slurm's levels has to be above.
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

// dockerID returns the short ID of a container's level: docker/ID with Docker's cgroupfs driver, docker-ID.scope with its systemd driver.
// It returns "" for a container directly below a pod, which is part of the pod.
func dockerID(level string, above []string) string {
	const digits, short = 64, 12
	id, named := strings.CutPrefix(level, "docker-")
	if named {
		id, named = strings.CutSuffix(id, ".scope")
	}
	if len(above) > 0 {
		parent := above[len(above)-1]
		if podOf(parent) != "" {
			return ""
		}
		named = named || parent == "docker"
	}
	if !named || len(id) != digits || !isHex(id) {
		return ""
	}
	return id[:short]
}

// serviceName returns the name of a service. It replaces characters that a unit must not have, such as the backslashes of systemd's escapes.
func serviceName(level string) string {
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
