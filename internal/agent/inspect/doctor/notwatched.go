package doctor

import "strings"

// checkNotWatched lists the devices and ports that the configuration excludes. Other checks ignore them.
func checkNotWatched(x *examination) []Result {
	const name = "not_watched"
	var results []Result
	if len(x.excluded) > 0 {
		results = append(results, Result{Check: name, Status: Skipped,
			Text: strings.Join(x.excluded, ", ") + ": left out by devices, devices_exclude or ports"})
	}
	if len(x.unwatchedPorts) > 0 {
		results = append(results, Result{Check: name, Status: Skipped, Text: strings.Join(x.unwatchedPorts, ", ") + ": left out by ports"})
	}
	if x.skippedFunctions > 0 {
		results = append(results, Result{Check: name, Status: Skipped, Text: x.plugin.VirtualFunctions.Explain(x.skippedFunctions)})
	}
	return results
}
