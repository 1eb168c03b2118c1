package gen

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// allDashboards returns the dashboards of an engine.
func allDashboards(e Engine) []*grafana.Dashboard {
	o, n := Defaults(), newNames(measure.All())
	return []*grafana.Dashboard{
		overviewDashboard(n, e, &o), hostDashboard(n, e, &o), deviceDashboard(n, e, &o), appsDashboard(n, e, &o), fabricDashboard(n, e, &o),
	}
}

func eachPanel(t *testing.T, do func(d *grafana.Dashboard, p *grafana.Panel)) {
	t.Helper()
	for _, e := range []Engine{InfluxDB, Prometheus} {
		for _, d := range allDashboards(e) {
			panels := d.All()
			require.Greater(t, len(panels), 10)
			for i := range panels {
				do(d, &panels[i])
			}
		}
	}
}

// colorNames are what a description may call a colour.
var colorNames = []string{"red", "orange", "yellow", "green", "purple", "blue", "grey"}

// colorsOf returns the colours that a panel's configuration has, as descriptions call them.
func colorsOf(t *testing.T, p *grafana.Panel) []string {
	t.Helper()
	text, err := json.Marshal(p.FieldConfig)
	require.NoError(t, err)
	var all []string
	for _, m := range regexp.MustCompile(`"(?:color|fixedColor)":"([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

func plainName(color string) string {
	if color == grey {
		return "grey"
	}
	for _, shade := range []string{"super-light-", "semi-dark-", "light-", "dark-"} {
		color = strings.TrimPrefix(color, shade)
	}
	return color
}

func TestColoursAreGrafanasAndDescriptionsNameOnlyThoseOfTheirPanel(t *testing.T) {
	named := regexp.MustCompile(`(?i)\b(` + strings.Join(colorNames, "|") + `)\b`)
	texts := 0
	eachPanel(t, func(d *grafana.Dashboard, p *grafana.Panel) {
		if p.Type == "row" {
			return
		}
		var have []string
		for _, color := range colorsOf(t, p) {
			if color != "text" {
				require.Contains(t, colorNames, plainName(color), "%s, %s: %s", d.UID, p.Title, color)
			}
			have = append(have, plainName(color))
		}
		for _, m := range named.FindAllString(p.Description, -1) {
			texts++
			require.Contains(t, have, strings.ToLower(m), "%s, %s: %s", d.UID, p.Title, p.Description)
		}
	})
	require.Greater(t, texts, 10)
}

// Only devices, ports, vectors, applications and the percentiles of calls have the colours of a palette.
func TestSeriesHaveTheColourOfTheirMeaning(t *testing.T) {
	palette := regexp.MustCompile(`^((hold|ack), vector|vector|port|(received, |sent, )?(\$tag_device|\{\{device\}\})|` +
		`\$tag_app|\{\{app\}\}|\$tag_own_group|\{\{own_group\}\}|(\$tag_call|\{\{call\}\}), p)`)
	eachPanel(t, func(d *grafana.Dashboard, p *grafana.Panel) {
		if p.Type != "timeseries" {
			return
		}
		for _, target := range p.Targets {
			alias := target.Alias + target.LegendFormat
			switch {
			case palette.MatchString(alias):
			case alias == "$tag_event", alias == "{{event}}", alias == "to $tag_state_to", alias == "$col":
				require.NotEmpty(t, p.FieldConfig.Overrides, "%s, %s", d.UID, p.Title)
			default:
				require.True(t, slices.ContainsFunc(p.FieldConfig.Overrides, func(o grafana.Override) bool {
					name, _, _ := strings.Cut(strings.TrimPrefix(o.Matcher.Options, "/^"), "(?!")
					return strings.HasPrefix(alias, name)
				}), "%s, %s: %s has no colour", d.UID, p.Title, alias)
			}
		}
	})
}

func TestEveryEventAndEveryStateHasItsColour(t *testing.T) {
	has := func(name string) bool {
		return slices.ContainsFunc(meanings, func(m meaning) bool { return m.name == name })
	}
	events := 0
	for _, m := range measure.All() {
		for _, f := range m.Fields {
			if _, ok := verbs.ParseEventType(f.Name); ok && m.Name == "rdma_async" {
				events++
				require.True(t, has(f.Name), f.Name)
			}
		}
	}
	require.Equal(t, 21, events)
	for state := verbs.PortAbsent; state <= verbs.PortActiveDefer; state++ {
		require.True(t, has("to "+state.String()), state.String())
	}
}

var update = flag.Bool("update", false, "write testdata/panels.txt")

// Rules, links and people name a panel by its id. A panel that goes leaves its id unused, and a new one takes a new id.
func TestPanelsKeepTheirIds(t *testing.T) {
	const path = "testdata/panels.txt"
	ids := map[string]string{}
	eachPanel(t, func(d *grafana.Dashboard, p *grafana.Panel) {
		ids[fmt.Sprintf("%s %d", strings.TrimSuffix(d.UID, "-prometheus"), p.ID)] = p.Title
	})
	if *update {
		var lines []string
		for id, title := range ids {
			lines = append(lines, id+" "+title)
		}
		slices.Sort(lines)
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
		require.Len(t, parts, 3, line)
		id := parts[0] + " " + parts[1]
		require.Equal(t, parts[2], ids[id], "panel %s", id)
		delete(ids, id)
	}
	require.Empty(t, ids, "new panels; run: go test ./assets/gen -run Ids -update")
}
