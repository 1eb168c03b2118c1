package grafana

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/grafana/grafana-openapi-client-go/models"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
)

// parseExport parses alert rules into the model that Grafana publishes. A key that is not in the model is an error, and so is a
// value that the model does not allow.
func parseExport(text []byte) (*models.AlertingFileExport, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(asJSON))
	dec.DisallowUnknownFields()
	var f models.AlertingFileExport
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	return &f, f.Validate(strfmt.Default)
}

func rulesText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, RulesFile))
	require.NoError(t, err)
	return string(text)
}

func TestRulesAreWhatGrafanaProvisions(t *testing.T) {
	f, err := parseExport([]byte(rulesText(t)))
	require.NoError(t, err)
	rules := 0
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			rules++
			require.Len(t, r.Title, len(strings.TrimSpace(r.Title)))
			require.LessOrEqual(t, len(r.UID), 40, "Grafana's limit")
		}
	}
	require.Len(t, alerts.Table(), rules+1, "all but no-reports, which is for Prometheus alone")
}

func TestAnErrorInARuleIsFound(t *testing.T) {
	for was, is := range map[string]string{
		"noDataState: OK":             "noDataState: Fine",
		"execErrState: Error":         "execErrState: Panic",
		"isPaused: false":             "isPaussed: false",
		"folder: RDMA":                "foulder: RDMA",
		"relativeTimeRange:":          "timeRange:",
		"              from: 180\n":   "              from: soon\n",
		"      - uid: rdma-port-down": "      - uid: [rdma-port-down]",
	} {
		text := strings.Replace(rulesText(t), was, is, 1)
		require.NotEqual(t, rulesText(t), text, was)
		_, err := parseExport([]byte(text))
		require.Error(t, err, is)
	}
}

func TestRulesHangTogether(t *testing.T) {
	file, err := Rules(root)
	require.NoError(t, err)
	uids := map[string]bool{}
	for _, g := range file.Groups {
		_, err := model.ParseDuration(g.Interval)
		require.NoError(t, err)
		for _, r := range g.Rules {
			require.False(t, uids[r.UID], r.UID)
			uids[r.UID] = true
			_, err := model.ParseDuration(r.For)
			require.NoError(t, err, r.UID)
			requireReferences(t, &r)
			require.NotEmpty(t, r.Annotations["do"], "the first step")
			require.NotContains(t, r.Annotations, "runbook_url", "the address of the documents is not known")
			const byRole = `{{ if eq .Labels.role "management" }}warning{{ else }}critical{{ end }}`
			require.Contains(t, []string{"critical", "warning", byRole}, r.Labels["severity"])
		}
	}
}

// requireReferences requires that expressions use only results that come before
// them, and that queries have a range.
func requireReferences(t *testing.T, r *grafana.Rule) {
	t.Helper()
	known := map[string]bool{}
	for _, q := range r.Data {
		require.False(t, known[q.RefID], "%s: %s twice", r.UID, q.RefID)
		require.Equal(t, q.RefID, q.Model.RefID)
		switch q.Model.Type {
		case "":
			require.Greater(t, q.Range.From, q.Range.To, r.UID)
			require.Equal(t, datasourceUID(t), q.DataSourceUID)
		case "math":
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Model.Expression, -1) {
				require.True(t, known[m[1]], "%s: %s", r.UID, m[0])
			}
		default:
			require.True(t, known[q.Model.Expression], "%s: %s", r.UID, q.Model.Expression)
		}
		known[q.RefID] = true
	}
	require.True(t, known[r.Condition], r.UID)
}

// datasourceUID returns the UID of the data source that is provisioned with the
// rules.
func datasourceUID(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "assets/datasources/rdma_events.yaml"))
	require.NoError(t, err)
	var f struct {
		Datasources []struct {
			UID  string
			Type string
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &f))
	require.Len(t, f.Datasources, 1)
	require.Equal(t, "influxdb", f.Datasources[0].Type)
	return f.Datasources[0].UID
}

// Each rule names a panel of a dashboard. The ids are written down, so a panel keeps its own when others come and go.
func TestRulesNameTheirPanels(t *testing.T) {
	boards, err := Dashboards(root)
	require.NoError(t, err)
	file, err := Rules(root)
	require.NoError(t, err)
	for _, r := range allRules(file) {
		d := boards[r.DashboardUID]
		require.NotNil(t, d, r.UID)
		panels := d.All()
		i := slices.IndexFunc(panels, func(p grafana.Panel) bool { return p.ID == r.PanelID })
		require.GreaterOrEqual(t, i, 0, r.UID)
		require.NotEqual(t, "row", panels[i].Type, r.UID)
	}
	for uid, d := range boards {
		ids := map[int]string{}
		for _, p := range d.All() {
			require.Positive(t, p.ID, "%s: %s", uid, p.Title)
			require.Empty(t, ids[p.ID], "%s: %s", uid, p.Title)
			ids[p.ID] = p.Title
		}
	}
}

// Each link leads to a heading of docs/reference/alerts.md.
func TestRulesLinkToTheDocumentsIfTheirAddressIsKnown(t *testing.T) {
	file, err := Rules(writeAssets(t, "-docs", "https://git.example.com/docs"))
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/alerts.md"))
	require.NoError(t, err)
	for _, r := range allRules(file) {
		page, heading, ok := strings.Cut(r.Annotations["runbook_url"], "#")
		require.True(t, ok)
		require.Equal(t, "https://git.example.com/docs/reference/alerts.md", page)
		require.Contains(t, string(text), "\n## "+heading+"\n")
	}
}

// Grafana replaces environment variables in annotations and labels, so a name
// after a dollar would become an empty text there.
func TestAnnotationsAndLabelsSurviveTheEnvironment(t *testing.T) {
	file, err := Rules(root)
	require.NoError(t, err)
	for _, r := range allRules(file) {
		for name, text := range r.Annotations {
			require.NotContains(t, text, "$", "%s of %s", name, r.UID)
		}
		for name, text := range r.Labels {
			require.NotContains(t, text, "$", "%s of %s", name, r.UID)
		}
	}
}
