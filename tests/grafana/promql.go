package grafana

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rdma_events/assets/grafana"
)

// PromQL puts what is chosen at the top of a dashboard, and range and interval, into
// a query for Prometheus, as Grafana's data source does. scrape is the scrape
// interval that the data source is configured with, 15 s by default: the rate
// interval is that much longer than the interval, and at least four of it
// (promlib's calculateRateInterval).
func PromQL(query string, variables []grafana.Variable, choice Choice, r Range, interval, scrape time.Duration) string {
	rate, span := max(interval+scrape, 4*scrape), r.To.Sub(r.From)
	pairs := []string{
		"$__rate_interval_ms", formatMilliseconds(rate), "$__interval_ms", formatMilliseconds(interval),
		"$__rate_interval", formatSeconds(rate), "$__interval", formatSeconds(interval), "$__range", formatSeconds(span),
	}
	for _, v := range variables {
		value := v.AllValue
		if chosen := choice[v.Name]; len(chosen) > 0 {
			value = strings.Join(chosen, "|")
		}
		pairs = append(pairs, "$"+v.Name, value)
	}
	return strings.NewReplacer(pairs...).Replace(query)
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

func formatMilliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
