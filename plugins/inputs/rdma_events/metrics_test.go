package rdma_events

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/monitor"
	"rdma_events/internal/verbs"
)

// everything returns points of all measurements with all fields.
func everything() []point {
	m := newMetrics()
	event, change := happenings()
	points := m.points(filled(), filledProcess(), at(0))
	return append(points, m.event.point(&event, event.Time), m.change.point(&change, change.Time))
}

func describe(t *testing.T, name string) Metric {
	t.Helper()
	for _, m := range Metrics() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("measurement %s is not in the table", name)
	return Metric{}
}

func kindOf(value any) Kind {
	switch value.(type) {
	case int64:
		return Int
	case float64:
		return Float
	case string:
		return String
	}
	return ""
}

func requireInTable(t *testing.T, p *point) {
	t.Helper()
	m := describe(t, p.name)
	for name, value := range p.fields {
		f, ok := m.Field(name)
		require.True(t, ok, "%s.%s is not in the table", p.name, name)
		require.Equal(t, f.Kind, kindOf(value), "%s.%s", p.name, name)
	}
	known := make(map[string]bool)
	for _, tag := range m.Tags {
		known[tag.Name] = true
		require.True(t, tag.Optional || p.tags[tag.Name] != "", "%s lacks the tag %s", p.name, tag.Name)
	}
	for name := range p.tags {
		require.True(t, known[name], "the tag %s of %s is not in the table", name, p.name)
	}
	for _, f := range m.Fields {
		_, there := p.fields[f.Name]
		require.True(t, f.Optional || there, "%s lacks %s", p.name, f.Name)
	}
}

func TestEveryEmittedFieldIsInTheTableWithItsType(t *testing.T) {
	for _, p := range everything() {
		requireInTable(t, &p)
	}
}

func TestEveryRowOfTheTableIsEmitted(t *testing.T) {
	emitted := make(map[string]bool)
	for _, p := range everything() {
		m := describe(t, p.name)
		for name := range p.fields {
			f, _ := m.Field(name)
			emitted[p.name+"."+f.Name] = true
		}
		for name := range p.tags {
			emitted[p.name+" "+name] = true
		}
	}
	for _, m := range Metrics() {
		for _, f := range m.Fields {
			require.True(t, emitted[m.Name+"."+f.Name], "%s.%s", m.Name, f.Name)
		}
		for _, tag := range m.Tags {
			require.True(t, emitted[m.Name+" "+tag.Name], "%s %s", m.Name, tag.Name)
		}
	}
}

func TestNamesAndUnitsFollowTheRules(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	for _, m := range Metrics() {
		require.Regexp(t, name, m.Name)
		require.NotEmpty(t, m.Description)
		seen := make(map[string]bool)
		for _, f := range m.Fields {
			require.Regexp(t, name, regexp.MustCompile("<number>").ReplaceAllString(f.Name, "7"))
			require.False(t, seen[f.Name], "%s.%s is there twice", m.Name, f.Name)
			seen[f.Name] = true
			require.NotEmpty(t, f.Description, f.Name)
			rate := regexp.MustCompile(`(_rate|^rate|rate_gbps)$`).MatchString(f.Name)
			require.Equal(t, rate, f.Kind == Float, "%s.%s", m.Name, f.Name)
			duration := regexp.MustCompile(`_ns(_\w+)?$`).MatchString(f.Name)
			require.Equal(t, duration, f.Unit == "ns" || f.Unit == "unix ns", "%s.%s", m.Name, f.Name)
			require.Equal(t, regexp.MustCompile(`_bytes$|^mtu$`).MatchString(f.Name), f.Unit == "bytes", f.Name)
		}
		for _, tag := range m.Tags {
			require.Regexp(t, name, tag.Name)
			require.NotEmpty(t, tag.Description)
			require.False(t, seen[tag.Name], "%s.%s is tag and field", m.Name, tag.Name)
		}
	}
}

func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
	m := newMetrics()
	port := m.port.point(&monitor.PortView{
		Device: "d", Port: 1, HasState: true, State: verbs.PortAbsent, Attr: filledPort().Attr,
	}, at(0))
	require.Equal(t, map[string]any{
		"state": int64(-1), "state_name": "absent", "transitions": int64(0), "flaps": int64(0),
		"down_ns": int64(0), "missed_transitions": int64(0), "phantom_events": int64(0),
	}, port.fields)
	require.Equal(t, map[string]string{"device": "d", "port": "1"}, port.tags)

	unasked := m.port.point(&monitor.PortView{Device: "d", Port: 1}, at(0))
	require.NotContains(t, unasked.fields, "state")
	require.NotContains(t, unasked.fields, "state_name")

	device := m.device.point(&monitor.DeviceView{Device: "d", Attr: verbs.DeviceAttr{NUMANode: -1}}, at(0))
	require.Equal(t, map[string]any{
		"present": int64(0), "open": int64(0), "opens": int64(0), "removals": int64(0), "fatals": int64(0),
		"worker_restarts": int64(0), "crashes": int64(0),
	}, device.fields)

	event := m.event.point(&monitor.EventPoint{Device: "d", Type: 33, Count: 1, Total: 1}, at(0))
	require.Equal(t, map[string]any{"count": int64(1), "total": int64(1)}, event.fields)
	require.Equal(t, map[string]string{"device": "d", "event": "unknown_33", "scope": "unknown"}, event.tags)

	idle := m.async.point(&monitor.AsyncView{Device: "d", Port: 1, Events: all(0, verbs.ScopePort)[:1]}, at(0))
	require.Equal(t, map[string]any{
		"port_active": int64(0), "port_active_rate": 0.0, "read": int64(0), "acked": int64(0),
		"unacked": int64(0), "released": int64(0),
	}, idle.fields)
}

func TestOnlyInfiniBandHasLIDs(t *testing.T) {
	m := newMetrics()
	v := filledPort()
	v.Attr.LinkLayer = verbs.LinkEthernet
	p := m.port.point(&v, at(0))
	require.NotContains(t, p.fields, "lid")
	require.NotContains(t, p.fields, "sm_lid")
	require.Equal(t, "ethernet", p.fields["link_layer"])
}

func TestForeignStringsFitOnALine(t *testing.T) {
	require.Equal(t, "a b c", clean("a\nb\tc"))
	require.Equal(t, "?x", clean("\xff\xfex"))
	require.Len(t, clean(string(bytes.Repeat([]byte("x"), 5000))), 256)
	require.LessOrEqual(t, len(clean(string(bytes.Repeat([]byte("ä"), 300)))), 256)
	require.Equal(t, int64(1<<63-1), clip(1<<64-1))
}

func TestNamesWithANumberAreFoundByTheirRow(t *testing.T) {
	m := describe(t, "rdma_async")
	for name, kind := range map[string]Kind{"unknown_33": Int, "unknown_-1": Int, "unknown_7_rate": Float} {
		f, ok := m.Field(name)
		require.True(t, ok, name)
		require.Equal(t, kind, f.Kind)
	}
	for _, name := range []string{"unknown_", "unknown_x", "unknown__rate", "unknown_1_ratio"} {
		_, ok := m.Field(name)
		require.False(t, ok, name)
	}
}

func TestLineProtocolIsAsItHasAlwaysBeen(t *testing.T) {
	s := &influx.Serializer{SortFields: true}
	require.NoError(t, s.Init())
	var got bytes.Buffer
	for _, p := range everything() {
		line, err := s.Serialize(metric.New(p.name, p.tags, p.fields, p.time, telegraf.Untyped))
		require.NoError(t, err)
		require.Less(t, len(line), 4096, "one write to a pipe")
		got.Write(line)
	}
	const golden = "testcases/filled.influx"
	if *update {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}
