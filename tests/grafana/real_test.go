//go:build grafana

package grafana

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/grafana/grafana-openapi-client-go/client"
	"github.com/grafana/grafana-openapi-client-go/client/folders"
	"github.com/grafana/grafana-openapi-client-go/client/provisioning"
	"github.com/grafana/grafana-openapi-client-go/models"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/tests/influx"
)

// folder is the folder in Grafana for everything that the test creates. The test
// removes it at the end.
const folder = "rdma-events-test"

// realGrafana is a Grafana on this machine: it has to reach the test's InfluxDB
// on the loopback interface.
type realGrafana struct {
	api   *client.GrafanaHTTPAPI
	url   *url.URL
	token string
}

func connectGrafana(t *testing.T) *realGrafana {
	t.Helper()
	address, token := os.Getenv("GRAFANA_URL"), os.Getenv("GRAFANA_TOKEN")
	require.NotEmpty(t, address, "set GRAFANA_URL to a Grafana on this machine, as in http://127.0.0.1:3000")
	require.NotEmpty(t, token, "set GRAFANA_TOKEN to the token of a service account that is an admin")
	at, err := url.Parse(address)
	require.NoError(t, err)
	return &realGrafana{
		url: at, token: token,
		api: client.NewHTTPClientWithConfig(strfmt.Default, &client.TransportConfig{
			Host: at.Host, BasePath: at.JoinPath("api").Path, Schemes: []string{at.Scheme}, APIKey: token,
		}),
	}
}

// TestARealGrafanaTakesItAllAndFires leaves nothing behind. It fails rather than
// overwrite anything that exists under the same names.
func TestARealGrafanaTakesItAllAndFires(t *testing.T) {
	g := connectGrafana(t)
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	host := liveHost{name: "port-down", timeline: "[[link]]\nat = \"4s\"", over: fieldEquals("rdma_port", "up", int64(0))}
	host.begin(t, src).Await("the port is down", patience, host.over)

	g.provisionDataSource(t, src)
	_, err := g.api.Folders.CreateFolder(&models.CreateFolderCommand{UID: folder, Title: "RDMA (test)"})
	require.NoError(t, err)
	t.Cleanup(func() { g.deleteFolder(t) })
	g.provisionDashboards(t)
	g.provisionRules(t)
	require.Eventually(t, func() bool { return g.firing(t)["RDMA port down"] }, 6*time.Minute, 5*time.Second, "RDMA port down is to fire")
	require.Equal(t, map[string]bool{"RDMA port down": true}, g.firing(t))
}

func (g *realGrafana) provisionDataSource(t *testing.T, src Source) {
	t.Helper()
	uid := datasourceUID(t)
	_, err := g.api.Datasources.AddDataSource(&models.AddDataSourceCommand{
		UID: uid, Name: "RDMA events (test)", Type: "influxdb", Access: "proxy", URL: src.Server.URL(),
		JSONData: map[string]any{"dbName": src.Database, "httpMode": "POST"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := g.api.Datasources.DeleteDataSourceByUID(uid)
		require.NoError(t, err)
	})
	health, err := g.api.Datasources.CheckDatasourceHealthWithUID(uid)
	require.NoError(t, err, "can Grafana reach the loopback interface of this machine?")
	t.Log(health.String())
}

func (g *realGrafana) deleteFolder(t *testing.T) {
	force := true
	_, err := g.api.Folders.DeleteFolder(folders.NewDeleteFolderParams().WithFolderUID(folder).WithForceDeleteRules(&force))
	require.NoError(t, err)
}

// provisionDashboards imports every dashboard and reads it back.
func (g *realGrafana) provisionDashboards(t *testing.T) {
	t.Helper()
	boards, err := Dashboards(root)
	require.NoError(t, err)
	for uid, d := range boards {
		_, err := g.api.Dashboards.PostDashboard(&models.SaveDashboardCommand{Dashboard: d, FolderUID: folder})
		require.NoError(t, err, uid)
		got, err := g.api.Dashboards.GetDashboardByUID(uid)
		require.NoError(t, err, uid)
		text, err := json.Marshal(got.Payload.Dashboard)
		require.NoError(t, err)
		var back struct{ Panels []grafana.Panel }
		require.NoError(t, json.Unmarshal(text, &back))
		require.Len(t, back.Panels, len(d.Panels), uid)
		for i := range d.Panels {
			require.Equal(t, d.Panels[i].Title, back.Panels[i].Title)
			require.Equal(t, d.Panels[i].Targets, back.Panels[i].Targets, d.Panels[i].Title)
		}
	}
}

// provisionRules provisions the rules as Grafana does from a file, and reads them
// back.
func (g *realGrafana) provisionRules(t *testing.T) {
	t.Helper()
	file, err := Rules(root)
	require.NoError(t, err)
	for _, group := range file.Groups {
		interval, err := model.ParseDuration(group.Interval)
		require.NoError(t, err)
		body := &models.AlertRuleGroup{FolderUID: folder, Title: group.Name, Interval: int64(time.Duration(interval).Seconds())}
		for _, r := range group.Rules {
			body.Rules = append(body.Rules, provisionedRule(t, &r, group.Name))
		}
		_, err = g.api.Provisioning.PutAlertRuleGroup(
			provisioning.NewPutAlertRuleGroupParams().WithFolderUID(folder).WithGroup(group.Name).WithBody(body))
		require.NoError(t, err, group.Name)
		back, err := g.api.Provisioning.GetAlertRuleGroup(group.Name, folder)
		require.NoError(t, err, group.Name)
		require.Len(t, back.Payload.Rules, len(group.Rules))
		for i, r := range group.Rules {
			require.Equal(t, r.UID, back.Payload.Rules[i].UID)
			require.Len(t, back.Payload.Rules[i].Data, len(r.Data))
		}
	}
}

func provisionedRule(t *testing.T, r *grafana.Rule, group string) *models.ProvisionedAlertRule {
	t.Helper()
	hold, err := model.ParseDuration(r.For)
	require.NoError(t, err)
	wait, org, place := strfmt.Duration(hold), int64(1), folder
	rule := &models.ProvisionedAlertRule{
		UID: r.UID, Title: &r.Title, Condition: &r.Condition, FolderUID: &place, RuleGroup: &group, OrgID: &org, For: &wait,
		NoDataState: &r.NoDataState, ExecErrState: &r.ExecErrState, Labels: r.Labels, Annotations: r.Annotations,
	}
	f, err := parseExport([]byte(rulesText(t)))
	require.NoError(t, err)
	for _, g := range f.Groups {
		for _, e := range g.Rules {
			if e.UID != r.UID {
				continue
			}
			for _, q := range e.Data {
				rule.Data = append(rule.Data, &models.AlertQuery{
					RefID: q.RefID, DatasourceUID: q.DatasourceUID, Model: q.Model,
					RelativeTimeRange: &models.RelativeTimeRange{
						From: models.Duration(q.RelativeTimeRange.From), To: models.Duration(q.RelativeTimeRange.To),
					},
				})
			}
		}
	}
	return rule
}

// firing returns the titles of the test's rules that fire. It uses the API that
// Grafana shares with Prometheus, which Grafana's client leaves out.
func (g *realGrafana) firing(t *testing.T) map[string]bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url.JoinPath("api/prometheus/grafana/api/v1/rules").String(), nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+g.token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Name, State string
					Labels      map[string]string
				}
			}
		}
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	fires := map[string]bool{}
	for _, group := range answer.Data.Groups {
		for _, r := range group.Rules {
			if r.Labels["component"] == "rdma" && r.State == "firing" {
				fires[r.Name] = true
			}
		}
	}
	return fires
}
