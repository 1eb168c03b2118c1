package prometheus_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logfmt/logfmt"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// moment is a line of a stream that was pushed to a Loki.
type moment struct {
	stream map[string]string
	fields map[string]string
	at     int64 // ns
}

// pushes collects what Telegraf pushes, in the form that Loki's API documents for /loki/api/v1/push.
type pushes struct {
	mu      sync.Mutex
	moments []moment
	err     error
}

func (p *pushes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var request struct {
		Streams []struct {
			Stream map[string]string `json:"stream"`
			Values [][2]string       `json:"values"`
		} `json:"streams"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	for _, s := range request.Streams {
		for _, v := range s.Values {
			m := moment{stream: s.Stream, fields: map[string]string{}}
			if m.at, err = strconv.ParseInt(v[0], 10, 64); err != nil {
				p.err = err
			}
			d := logfmt.NewDecoder(strings.NewReader(v[1]))
			for d.ScanRecord() {
				for d.ScanKeyval() {
					m.fields[string(d.Key())] = string(d.Value())
				}
			}
			if d.Err() != nil {
				p.err = d.Err()
			}
			p.moments = append(p.moments, m)
		}
	}
	if err != nil {
		p.err = err
	}
	if r.URL.Path != "/loki/api/v1/push" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// of returns the lines of a measurement in which these fields have these values.
func (p *pushes) of(t *testing.T, measurement string, fields ...string) (found []moment) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(t, p.err)
next:
	for _, m := range p.moments {
		if m.stream["measurement"] != measurement {
			continue
		}
		for i := 0; i < len(fields); i += 2 {
			if m.fields[fields[i]] != fields[i+1] {
				continue next
			}
		}
		found = append(found, m)
	}
	return found
}

// A port drops once. Another program writes evidence with a text that could break a line.
func TestMomentsArePushedToLokiOnce(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("loki.conf")
	require.NoError(t, err)
	var p pushes
	server := httptest.NewServer(&p)
	t.Cleanup(server.Close)
	scenario := filepath.Join(t.TempDir(), "scenario.toml")
	require.NoError(t, os.WriteFile(scenario, []byte("[[link]]\nat = \"2s\"\ndown_for = \"40ms\"\n"), 0o600))
	conf := strings.Replace(string(text), "http://127.0.0.1:3100", server.URL, 1)
	require.NotEqual(t, string(text), conf)
	r := rig.Start(t, rig.Config{
		Plugin: "[[inputs.rdma_events]]\n  backend = \"sim\"\n  [inputs.rdma_events.sim]\n    profile = \"fleet1\"\n    scenario = \"" + scenario + "\"\n",
		More: conf + `
[[inputs.execd]]
  command = ["sh", "-c", """read -r _
    printf 'rdma_evidence,host=h1,device=mlx5_9,port=1,trigger=port_err cause=\"no_cable\",top=\"a \\\\\"b\\\\\" c\\\\\\\\d\" 1700000000000000001\\n'
    while read -r _; do :; done"""]
  signal = "STDIN"
  data_format = "influx"
[global_tags]
  host = "h1"
  site = "s1"
`,
	})
	require.Eventually(t, func() bool {
		return len(p.of(t, "rdma_port_change", "state_to", "active", "state_from", "down")) > 0 && len(p.of(t, "rdma_evidence", "device", "mlx5_9")) > 0
	}, time.Minute, 100*time.Millisecond)
	for _, event := range []string{"port_err", "port_active"} {
		require.Len(t, p.of(t, "rdma_async_event", "event", event, "device", "sim0", "port", "1"), 1, event)
	}
	change := p.of(t, "rdma_port_change", "state_to", "active", "state_from", "down")
	require.Len(t, change, 1)
	require.Equal(t, map[string]string{"job": "rdma_events", "measurement": "rdma_port_change", "host": "h1", "site": "s1"}, change[0].stream,
		"a device or a port is no label of a stream")
	require.Equal(t, "event", change[0].fields["witness"])
	lasted, err := strconv.ParseInt(change[0].fields["lasted_ns"], 10, 64)
	require.NoError(t, err)
	require.Positive(t, lasted)
	points := r.Await("the original point", time.Minute, func(points []rig.Point) bool {
		return len(rig.Select(points, "rdma_port_change", "state_to", "active", "state_from", "down")) > 0
	})
	original := rig.Select(points, "rdma_port_change", "state_to", "active", "state_from", "down")[0]
	require.Equal(t, original.Time, change[0].at)
	evidence := p.of(t, "rdma_evidence", "device", "mlx5_9")
	require.Len(t, evidence, 1)
	require.Equal(t, `a "b" c\d`, evidence[0].fields["top"])
	require.Empty(t, p.of(t, "rdma_port"), "what comes every interval stays out")
}
