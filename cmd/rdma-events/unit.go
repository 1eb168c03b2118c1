package main

import "strings"

// unitName returns a unit as the plugin names it: 1234 and job-1234 are the Slurm job job_1234, and a bare UID or pod-UID is the pod
// pod_UID. Everything else stays as it is.
func unitName(text string) string {
	if text != "" && strings.Trim(text, "0123456789") == "" && len(text) < podDigits {
		return "job_" + text
	}
	for _, kind := range []string{"job", "pod", "docker"} {
		if id, ok := strings.CutPrefix(text, kind+"-"); ok {
			return kind + "_" + id
		}
	}
	plain := strings.ReplaceAll(text, "-", "")
	if len(plain) == podDigits && strings.Trim(plain, "0123456789abcdefABCDEF") == "" {
		return "pod_" + text
	}
	return text
}

// podDigits is how many hexadecimal digits the UID of a pod has.
const podDigits = 32
