package doctor

import "strings"

// checkNotWatched lists the devices and ports that the configuration leaves out. No other check judges them.
func checkNotWatched(x *examination) []Result {
	const name = "not_watched"
	var results []Result
	if len(x.excluded) > 0 {
		results = append(results, Result{Check: name, Status: Skipped,
			Text: strings.Join(x.excluded, ", ") + ": left out by devices, devices_exclude or ports"})
	}
	if len(x.others) > 0 {
		results = append(results, Result{Check: name, Status: Skipped, Text: strings.Join(x.others, ", ") + ": left out by ports"})
	}
	if x.skipped > 0 {
		results = append(results, Result{Check: name, Status: Skipped, Text: x.plugin.VirtualFunctions.Explain(x.skipped)})
	}
	return results
}
