package health

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rdma_events/tests/grafana"
)

// elsewhere are the alert rules that a process cannot judge, each with what it needs besides.
var elsewhere = map[string]string{
	"ports-down-together": "other hosts",
	"sm-unstable":         "other hosts",
	"fabric-suspect":      "other hosts",
	"fabric-group":        "other hosts",
	"fabric-lossy":        "other hosts",
	"fabric-slow":         "other hosts, and their day",
	"fabric-unmet":        "other hosts",
	"fabric-key":          "other hosts",
	"fabric-lists-differ": "other hosts",
	"wake-slow":           "the wake-ups of a day",
	"plugin-silent":       "a process that runs while the plugin does not",
	"no-reports":          "the same",
}

// The alert rules for Prometheus say the same of hold, window, count and severity, and there is one for each.
func TestTheRulesAreThoseOfTheAlerts(t *testing.T) {
	text, err := os.ReadFile("../../assets/prometheus/rules.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For string
				Labels           map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	judged := map[string][]rule{}
	for _, r := range []rule{
		portDown, portFlapping, linkSlow, linkDisagrees, gidMoved, deviceMissing, deviceFatal, unackedEvents, releasedEvents,
		commandStuck, commandSlow, probeErrors, lostEvents, lostCompletions,
		appErrors, appUnread, appHangs, tracerBlind, fabricOwnLink, fabricPair, workerDown, workerRestarts, pluginLate, recorderFailing,
	} {
		judged[r.id] = append(judged[r.id], r)
	}
	found := 0
	for _, group := range file.Groups {
		for _, alert := range group.Rules {
			if alert.Alert == "" {
				continue
			}
			id := kebab(alert.Alert)
			if elsewhere[id] != "" {
				require.Empty(t, judged[id], id)
				continue
			}
			found++
			require.NotEmpty(t, judged[id], "no rule here is %s, and it is not listed as one that a process cannot judge", id)
			for _, r := range judged[id] {
				require.Equal(t, alert.Labels["severity"], string(r.severity), id)
				var hold time.Duration
				if alert.For != "" {
					hold, err = time.ParseDuration(alert.For)
					require.NoError(t, err, id)
				}
				require.Equal(t, hold, r.hold, id)
				if r.count == 0 {
					continue
				}
				require.Contains(t, alert.Expr, fmt.Sprintf("[%dm]) > %d.5", int(r.window.Minutes()), r.count-1), id)
			}
		}
	}
	require.Len(t, judged, found)
}

// The limit of commands is that of the alert rules for both data sources.
func TestSlowCommandsAreThoseOfTheAlerts(t *testing.T) {
	text, err := os.ReadFile("../../assets/prometheus/rules.yml")
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("expr: rdma_command_took_p99_seconds > %g unless", slowCommand.Seconds()))
	rules, err := grafana.Rules("../..")
	require.NoError(t, err)
	for _, group := range rules.Groups {
		for i := range group.Rules {
			if r := &group.Rules[i]; r.UID == "rdma-"+commandSlow.id {
				last := r.Data[len(r.Data)-1].Model
				require.Len(t, last.Conditions, 1)
				require.Equal(t, []float64{float64(slowCommand)}, last.Conditions[0].Evaluator.Params)
				return
			}
		}
	}
	t.Fatal("no rule for Grafana is about slow commands")
}

var capital = regexp.MustCompile(`([a-z])([A-Z])`)

// kebab returns the id of an alert, as "gid-moved" of "RDMAGIDMoved".
func kebab(alert string) string {
	name := strings.TrimPrefix(alert, "RDMA")
	name = strings.NewReplacer("GID", "Gid", "SM", "Sm").Replace(name)
	return strings.ToLower(capital.ReplaceAllString(name, "$1-$2"))
}
