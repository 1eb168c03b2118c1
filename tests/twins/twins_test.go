package twins

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/grafana"
	"rdma_events/tests/influx"
	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
	"rdma_events/tests/scrapes"
)

const (
	root     = "../.."
	interval = 15 * time.Second // of the shipped prometheus.yml
)

// offset is when in each minute the scrapes begin: a Prometheus spreads them, and no query's step meets them.
const offset = 7 * time.Second

// askew moves evaluations away from the multiples of intervals, where Grafana's are not either.
const askew = 17 * time.Second

// twins are two databases with the same hour.
type twins struct {
	influx grafana.Source
	prom   *prom.Server    // for moments
	past   *prom.Server    // for values over time: it looks back for two scrapes
	series *scrapes.Series // what the Prometheus scraped
}

func TestBothEnginesSayTheSameOfOneHour(t *testing.T) {
	began := time.Now()
	w := fillDatabases(t)
	t.Logf("both databases are filled after %v", time.Since(began).Round(time.Second))
	t.Run("panels", w.comparePanels)
	t.Logf("panels are compared after %v", time.Since(began).Round(time.Second))
	t.Run("forms", w.compareForms)
	t.Run("rules", w.compareRules)
	t.Logf("rules are compared after %v", time.Since(began).Round(time.Second))
}

// fillDatabases writes the hour into both databases.
func fillDatabases(t *testing.T) *twins {
	t.Helper()
	w := &twins{influx: grafana.Source{Server: influx.Start(t), Database: "rdma"}, series: scrapes.NewSeries(firstScrape(), interval)}
	require.NoError(t, w.influx.Server.CreateDatabase(t.Context(), w.influx.Database))
	text, err := os.ReadFile(filepath.Join(root, "assets/prometheus/telegraf.conf"))
	require.NoError(t, err)
	output, err := scrapes.ReadOutput(string(text))
	require.NoError(t, err)
	telegraf, err := scrapes.Start(rig.Program(t, "TELEGRAF_LARGE_BIN", "tools/telegraf-large"), string(text), t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, telegraf.Close()) }()
	dir := t.TempDir()
	file := filepath.Join(dir, "scrapes.om")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	out := bufio.NewWriter(f)
	emitted := simulateFleet(t)
	for i, m := range fleetMembers() {
		lines := <-emitted[i]
		w.write(t, m.name, lines)
		metrics, err := telegraf.Shape(lines)
		require.NoError(t, err, m.name)
		require.NoError(t, output.Each(metrics, firstScrape(), hourStart().Add(hour), interval, func(at time.Time, found []*dto.MetricFamily) error {
			scrapes.Label(found, "rdma", m.name+m.instance+":9273")
			w.series.Add(at, found)
			return scrapes.WriteOpenMetrics(out, at, found)
		}))
	}
	require.NoError(t, scrapes.End(out))
	require.NoError(t, out.Flush())
	tool := prom.Promtool(rig.Program(t, "PROMTOOL_BIN", "tools/promtool"))
	require.NoError(t, tool.Blocks(t.Context(), file, dir, 0))
	recordRules(t, tool, dir)
	w.prom = startPrometheus(t, prom.Config{Dir: dir})
	other := t.TempDir()
	require.NoError(t, os.CopyFS(other, os.DirFS(dir)))
	w.past = startPrometheus(t, prom.Config{Dir: other, Lookback: 2 * interval})
	return w
}

// write writes lines into the InfluxDB.
func (w *twins) write(t *testing.T, name string, lines []byte) {
	t.Helper()
	to := w.influx.Server.NewWriter(t.Context(), w.influx.Database)
	for line := range bytes.Lines(lines) {
		_, err := to.Write(line)
		require.NoError(t, err, name)
	}
	require.NoError(t, to.Flush(), name)
}

// simulateFleet makes each member's lines in the background, two members at a time.
func simulateFleet(t *testing.T) []chan []byte {
	t.Helper()
	emitted := make([]chan []byte, len(fleetMembers()))
	turn := make(chan struct{}, 2)
	for i, m := range fleetMembers() {
		emitted[i] = make(chan []byte, 1)
		go func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			lines, err := m.lines(t.Context())
			assert.NoError(t, err, m.name)
			emitted[i] <- lines
		}()
	}
	return emitted
}

// recordRules adds the results of the recording rules to the blocks in a directory.
func recordRules(t *testing.T, tool prom.Promtool, dir string) {
	t.Helper()
	s, err := prom.Open(t.Context(), prom.Config{Program: rig.Program(t, "PROMETHEUS_BIN", "tools/prometheus"), Dir: dir})
	require.NoError(t, err)
	err = tool.Record(t.Context(), s, rulesFile(t), dir, hourStart().Add(early), hourStart().Add(hour))
	require.NoError(t, errors.Join(err, s.Close()))
}

// startPrometheus runs a Prometheus until the end of the test.
func startPrometheus(t *testing.T, c prom.Config) *prom.Server {
	t.Helper()
	c.Program = rig.Program(t, "PROMETHEUS_BIN", "tools/prometheus")
	s, err := prom.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func rulesFile(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "assets/prometheus/rules.yml"))
	require.NoError(t, err)
	return path
}

func firstScrape() time.Time { return hourStart().Add(early + offset) }
