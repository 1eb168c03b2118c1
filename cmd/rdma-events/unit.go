package main

import "strings"

// unitName returns the name that the plugin uses for a unit: job_1234 for the Slurm job 1234 or job-1234, and pod_UID
// for a pod UID or pod-UID. Other texts stay unchanged.
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

// podDigits is the number of hexadecimal digits in the UID of a pod.
const podDigits = 32
