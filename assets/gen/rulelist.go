package gen

import (
	"slices"
	"time"
)

// rules returns the table of alert rules, for both engines.
func (o *Options) rules() []rule {
	return slices.Concat(o.portRules(), o.deviceRules(), commandRules(o), probeRules(), o.appRules(), o.fabricRules(), o.pluginRules())
}

// growth returns the step for a counter's increase in each series in which it
// increased.
func growth(field, measurement string, over time.Duration) step {
	return step{query: grown(field, measurement), from: over}
}

// quiet is the noData state of a rule if another rule fires when nothing is
// reported.
const quiet = "OK"
