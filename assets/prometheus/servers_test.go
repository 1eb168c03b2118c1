package prometheus_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/child"
	"rdma_events/tests/prerequisite"
	"rdma_events/tests/rig"
)

// TestMain has every test run the Telegraf that has the output for Prometheus.
func TestMain(m *testing.M) {
	large := os.Getenv("TELEGRAF_LARGE_BIN")
	if large == "" {
		large = "../../build/tools/telegraf-large"
	}
	path, err := filepath.Abs(large)
	if err == nil {
		err = os.Setenv("TELEGRAF_BIN", path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "name Telegraf:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// freeAddress returns an address of this host on which no program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	ports, err := child.FreePorts(t.Context(), 1)
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", ports[0])
}

// editedFile returns the path of a shipped file with changes. It fails the test if the file lacks a text to be replaced.
func editedFile(t *testing.T, name string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for i := 0; i < len(changes); i += 2 {
		require.Contains(t, string(text), changes[i], name)
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(strings.NewReplacer(changes...).Replace(string(text))), 0o600))
	return path
}

// startServer runs a server until the end of the test. It returns when the server is ready.
func startServer(t *testing.T, address string, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := child.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Stop(20 * time.Second); err != nil {
			t.Error(err)
		}
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of %s: %s", cmd.Path, text[max(0, len(text)-4000):])
		}
	})
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "%s does not become ready", cmd.Path)
}

// startAlertmanager runs an Alertmanager with a configuration, and returns its address. Debian's finds its templates only
// below /usr/share, so it runs in a mount namespace that has them there.
func startAlertmanager(t *testing.T, config string) (address string) {
	t.Helper()
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		prerequisite.Missing(t, prerequisite.UserNamespaces, fmt.Sprintf("user namespaces: %v: %s", err, out))
	}
	program := rig.Program(t, "ALERTMANAGER_BIN", "tools/alertmanager")
	address = freeAddress(t)
	const inNamespace = `mount -t tmpfs tmpfs /usr/share && mkdir -p /usr/share/prometheus/alertmanager &&
		mount --bind "$1" /usr/share/prometheus/alertmanager && shift && exec "$@"`
	startServer(t, address, exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inNamespace, "sh",
		program+"-templates", program, "--config.file="+config, "--storage.path="+t.TempDir(),
		"--web.listen-address="+address, "--cluster.listen-address="))
	return address
}

// startPrometheus runs a Prometheus with a configuration, and returns its address.
func startPrometheus(t *testing.T, config string) (address string) {
	t.Helper()
	address = freeAddress(t)
	startServer(t, address, exec.Command(rig.Program(t, "PROMETHEUS_BIN", "tools/prometheus"), "--config.file="+config,
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+address))
	return address
}

// notification is what Alertmanager sends to a webhook.
type notification struct {
	Status      string            `json:"status"`
	GroupLabels map[string]string `json:"groupLabels"`
	Alerts      []struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		StartsAt    time.Time         `json:"startsAt"`
	} `json:"alerts"`
	at time.Time
}

// operator is whom Alertmanager notifies.
type operator struct {
	address string
	mu      sync.Mutex
	all     []notification
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n := notification{at: time.Now()}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Errorf("notification: %v", err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = append(o.all, n)
	}))
	t.Cleanup(s.Close)
	o.address = s.URL
	return o
}

func (o *operator) notifications() []notification {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]notification(nil), o.all...)
}

// suppressedAlerts returns how many alerts with a name Alertmanager holds back.
func suppressedAlerts(t *testing.T, address, name string) int {
	t.Helper()
	response, err := http.Get("http://" + address + "/api/v2/alerts?filter=alertname%3D" + name)
	require.NoError(t, err)
	defer response.Body.Close()
	var alerts []struct {
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&alerts))
	n := 0
	for _, a := range alerts {
		if a.Status.State == "suppressed" {
			n++
		}
	}
	return n
}

// serverMetric returns the value of one of a server's own metrics.
func serverMetric(t *testing.T, address, name string) float64 {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	require.NoError(t, err)
	require.Equal(t, dto.MetricType_GAUGE, families[name].GetType(), name)
	return families[name].GetMetric()[0].GetGauge().GetValue()
}
