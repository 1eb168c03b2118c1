package alerts

import "slices"

// Table returns all alerts in the order of docs/reference/alerts.md. The caller owns the slice, and must not change the
// rows.
func Table() []Alert {
	return slices.Concat(portAlerts(), deviceAlerts(), commandAlerts(), probeAlerts(), applicationAlerts(), fabricAlerts(), pluginAlerts())
}
