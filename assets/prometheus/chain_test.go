package prometheus_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// asShipped runs the chain with the timings that are shipped, for 13 minutes.
var asShipped = flag.Bool("chain.shipped", false, "run the chain of notifications with the shipped timings")

func TestPrometheusAndAlertmanagerTakeTheirConfigurations(t *testing.T) {
	out, err := runPromtool(t, "check", "config", "prometheus.yml")
	require.NoError(t, err, out)
	out, err = runPromtool(t, "check", "config", editedFile(t, "prometheus.yml", "scrape_configs", "scrape_confix", "rules.yml", "none.yml"))
	require.Error(t, err, out)
	startAlertmanager(t, "alertmanager.yml")
}

// timings are the changes that make the chain fast.
type timings struct {
	interval, expires                string // of Telegraf
	scrapes, rules, notifies         []string
	fault, outage, notified, settled time.Duration
}

func timingsOf(shipped bool) timings {
	if shipped {
		return timings{
			interval: "10s", expires: "30s", fault: 75 * time.Second, outage: 4 * time.Minute,
			notified: 135 * time.Second, settled: 12 * time.Minute,
		}
	}
	return timings{
		interval: "1s", expires: "3s",
		scrapes: []string{"scrape_interval: 15s", "scrape_interval: 1s", "evaluation_interval: 15s", "evaluation_interval: 1s"},
		rules:   []string{"for: 30s", "for: 2s", "for: 1m", "for: 4s"},
		// The wait is longer than the difference of the two durations: the alert that holds another back comes first.
		notifies: []string{"group_wait: 30s", "group_wait: 3s", "group_interval: 5m", "group_interval: 2s"},
		// A port that has been active for a minute is one that should be.
		fault: 75 * time.Second, outage: 20 * time.Second, notified: 10 * time.Minute, settled: 5 * time.Minute,
	}
}

// A switch reboots: the operator hears of it once, and once more when all is well.
func TestEightLinksThatFallAreOneNotification(t *testing.T) {
	t.Parallel()
	w := timingsOf(*asShipped)
	o := newOperator(t)
	alertmanager := startAlertmanager(t, editedFile(t, "alertmanager.yml",
		append(w.notifies, "  - name: rdma\n", fmt.Sprintf("  - name: rdma\n    webhook_configs: [{url: %q}]\n", o.address))...))
	telegraf := freeAddress(t)
	prometheus := startPrometheus(t, editedFile(t, "prometheus.yml", append(w.scrapes,
		"rules.yml", editedFile(t, "rules.yml", w.rules...), "127.0.0.1:9093", alertmanager, "127.0.0.1:9273", telegraf)...))
	scenario := filepath.Join(t.TempDir(), "scenario.toml")
	require.NoError(t, os.WriteFile(scenario, fmt.Appendf(nil, "[[link]]\nat = %q\ndown_for = %q\n", w.fault, w.outage), 0o600))
	began := time.Now()
	rig.Start(t, rig.Config{
		Interval: w.interval,
		Plugin: fmt.Sprintf("[[inputs.rdma_events]]\n  backend = \"sim\"\n  [inputs.rdma_events.sim]\n    profile = \"fleet8\"\n    scenario = %q\n",
			scenario),
		More: shippedConfig(t, telegraf, `expiration_interval = "30s"`, fmt.Sprintf("expiration_interval = %q", w.expires)) +
			"\n[global_tags]\n  host = \"h1\"\n  site = \"s1\"\n  rack = \"r1\"\n",
	})
	await := func(what string, there func() bool) {
		t.Helper()
		if !assert.Eventually(t, there, w.settled, 100*time.Millisecond, what) {
			t.Fatalf("notifications so far: %+v", o.notifications())
		}
	}
	await("a notification", func() bool { return len(o.notifications()) == 1 })
	after := o.notifications()[0].at.Sub(began) - w.fault
	t.Logf("from the fault to the notification: %v", after.Round(100*time.Millisecond))
	require.LessOrEqual(t, after, w.notified)
	await("eight alerts that are held back", func() bool { return suppressedAlerts(t, alertmanager, "RDMAPortDown") == 8 })
	await("the end", func() bool { return len(o.notifications()) == 2 })
	// Alertmanager forgets a group when all of its alerts are over and nothing is left to send.
	await("no alerts", func() bool { return serverMetric(t, alertmanager, "alertmanager_dispatcher_aggregation_groups") == 0 })

	all := o.notifications()
	require.Len(t, all, 2)
	for i, status := range []string{"firing", "resolved"} {
		require.Equal(t, status, all[i].Status)
		require.Equal(t, map[string]string{"alertname": "RDMAPortsDownTogether", "site": "s1", "rack": "r1"}, all[i].GroupLabels)
		require.Len(t, all[i].Alerts, 1)
	}
	require.Equal(t, "Eight or more RDMA ports are down together, site s1, rack r1", all[0].Alerts[0].Annotations["summary"])
	out, err := runPromtool(t, "query", "instant", "http://"+prometheus, `sum(rdma_port_up)`)
	require.NoError(t, err, out)
	require.Contains(t, out, "=> 8 @", "all links are up again")
}

func TestAlertmanagerRefusesAWrongFile(t *testing.T) {
	program := rig.Program(t, "ALERTMANAGER_BIN", "tools/alertmanager")
	out, err := exec.Command(program, "--config.file="+editedFile(t, "alertmanager.yml", "group_by", "groop_by"), "--storage.path="+t.TempDir(),
		"--web.listen-address=127.0.0.1:0", "--cluster.listen-address=").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "groop_by")
}
