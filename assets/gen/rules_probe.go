package gen

import "time"

// slowWakeUps compares the wake-up latency of each probe with its latency hours before.
func slowWakeUps() queries {
	return queries{
		steps: []step{
			{query: `SELECT mean("wake_ns_p99") AS "p99" FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byProbe, from: 5 * time.Minute},
			{
				// rdma_host adds a series that matches no probe. Without it each side could have only one series.
				// Grafana would then compare the two whatever their labels are, for example after an update that
				// changed the method (mathexp.union).
				query: `SELECT mean("wake_ns_p99") AS "p99" FROM {rdma_cq_probe}, {rdma_host} WHERE {filter} GROUP BY ` + byProbe,
				from:  4 * time.Hour, to: time.Hour,
			},
		},
		when: "$RA > 5 * $RB && $RA > 200000",
		promql: `avg_over_time(rdma_cq_probe_wake_p99_seconds[5m]) > 5 * avg_over_time(rdma:cq_probe_wake_p99_seconds:mean5m[3h] offset 1h)
			and avg_over_time(rdma_cq_probe_wake_p99_seconds[5m]) > 200e-6`,
	}
}
