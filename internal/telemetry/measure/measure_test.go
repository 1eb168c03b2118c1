package measure

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

var update = flag.Bool("rewrite", false, "rewrite golden files")

// allLines returns lines of all measurements with all fields.
func allLines() []Line {
	var lines []Line
	for _, p := range filledPoints() {
		p.Lines(func(l Line) { lines = append(lines, l) })
	}
	return lines
}

// onlyLine returns the line of a point that has exactly one.
func onlyLine(t *testing.T, p Point) Line {
	t.Helper()
	var lines []Line
	p.Lines(func(l Line) { lines = append(lines, l) })
	require.Len(t, lines, 1)
	return lines[0]
}

func findMetric(t *testing.T, name string) Metric {
	t.Helper()
	for _, m := range All() {
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

func requireInTable(t *testing.T, p *Line) {
	t.Helper()
	m := findMetric(t, p.Name)
	for name, value := range p.Fields {
		f, ok := m.Field(name)
		require.True(t, ok, "%s.%s is not in the table", p.Name, name)
		require.Equal(t, f.Kind, kindOf(value), "%s.%s", p.Name, name)
	}
	known := make(map[string]bool)
	for _, tag := range m.Tags {
		known[tag.Name] = true
		require.True(t, tag.Optional || p.Tags[tag.Name] != "", "%s lacks the tag %s", p.Name, tag.Name)
	}
	for name := range p.Tags {
		require.True(t, known[name], "the tag %s of %s is not in the table", name, p.Name)
	}
	for _, f := range m.Fields {
		_, there := p.Fields[f.Name]
		require.True(t, f.Optional || there, "%s lacks %s", p.Name, f.Name)
	}
}

func TestEveryEmittedFieldIsInTheTableWithItsType(t *testing.T) {
	for _, p := range allLines() {
		requireInTable(t, &p)
	}
}

func TestEveryRowOfTheTableIsEmitted(t *testing.T) {
	emitted := make(map[string]bool)
	for _, p := range allLines() {
		m := findMetric(t, p.Name)
		for name := range p.Fields {
			f, _ := m.Field(name)
			emitted[p.Name+"."+f.Name] = true
		}
		for name := range p.Tags {
			emitted[p.Name+" "+name] = true
		}
	}
	for _, m := range All() {
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
	for _, m := range All() {
		require.Regexp(t, name, m.Name)
		require.NotEmpty(t, m.Description)
		seen := make(map[string]bool)
		for _, f := range m.Fields {
			require.Regexp(t, name, regexp.MustCompile("<number>").ReplaceAllString(f.Name, "7"))
			require.False(t, seen[f.Name], "%s.%s is there twice", m.Name, f.Name)
			seen[f.Name] = true
			require.NotEmpty(t, f.Description, f.Name)
			rate := regexp.MustCompile(`(_rate|_gbps|_gts)$`).MatchString(f.Name)
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

func TestUnknownValuesAreLeftOut(t *testing.T) {
	port := onlyLine(t, &Port{
		Device: "d", Port: 1, HasState: true, State: verbs.PortAbsent, Attr: filledPort().Attr,
	})
	require.Equal(t, map[string]any{
		"state": int64(-1), "state_name": "absent", "transitions": int64(0), "flaps": int64(0), "flaps_day": int64(0),
		"down_ns": int64(0), "missed_transitions": int64(0), "phantom_events": int64(0), "gid_moves": int64(0),
		"expected_up": int64(0),
	}, port.Fields)
	require.Equal(t, map[string]string{"device": "d", "port": "1"}, port.Tags)

	unasked := onlyLine(t, &Port{Device: "d", Port: 1})
	require.NotContains(t, unasked.Fields, "state")
	require.NotContains(t, unasked.Fields, "state_name")

	device := onlyLine(t, &Device{Device: "d", Attr: verbs.DeviceAttr{NUMANode: -1}})
	require.Equal(t, map[string]any{
		"present": int64(0), "open": int64(0), "opens": int64(0), "removals": int64(0), "fatals": int64(0),
		"function_removals": int64(0), "unplanned_removals": int64(0), "worker_restarts": int64(0), "crashes": int64(0),
	}, device.Fields)

	event := onlyLine(t, &Event{Device: "d", Type: 33, Count: 1, Total: 1})
	require.Equal(t, map[string]any{"count": int64(1), "total": int64(1)}, event.Fields)
	require.Equal(t, map[string]string{"device": "d", "event": "unknown_33", "scope": "unknown"}, event.Tags)

	idle := onlyLine(t, &Async{Device: "d", Port: 1, Types: eventCounts(0, verbs.ScopePort)[:1]})
	require.Equal(t, map[string]any{
		"port_active": int64(0), "port_active_rate": 0.0, "read": int64(0), "acked": int64(0),
		"unacked": int64(0), "released": int64(0),
	}, idle.Fields)
}

func TestOnlyInfiniBandHasLIDs(t *testing.T) {
	v := filledPort()
	v.Attr.LinkLayer = verbs.LinkEthernet
	p := onlyLine(t, v)
	require.NotContains(t, p.Fields, "lid")
	require.NotContains(t, p.Fields, "sm_lid")
	require.Equal(t, "ethernet", p.Fields["link_layer"])
}

func TestForeignStringsFitOnALine(t *testing.T) {
	require.Equal(t, "a b c", cleanText("a\nb\tc"))
	require.Equal(t, "?x", cleanText("\xff\xfex"))
	require.Len(t, cleanText(string(bytes.Repeat([]byte("x"), 5000))), 256)
	require.LessOrEqual(t, len(cleanText(string(bytes.Repeat([]byte("ä"), 300)))), 256)
	require.Equal(t, int64(1<<63-1), clampToInt64(1<<64-1))
}

func TestEveryPointHasAKeyOfItsOwn(t *testing.T) {
	keys, measurements := map[Key]bool{}, map[string]bool{}
	for _, p := range filledPoints() {
		require.False(t, keys[p.Key()], "%v", p.Key())
		require.False(t, p.Time().IsZero(), "%v", p.Key())
		keys[p.Key()], measurements[p.Key().Measurement] = true, true
	}
	require.Len(t, measurements, len(All()))
}

func TestALaterPointReplacesAnEarlierOne(t *testing.T) {
	for _, p := range []Point{
		&Async{}, &Port{}, &Probe{}, &Histogram{}, &Command{}, &Device{}, &App{}, &AppAsync{}, &AppHang{}, &Host{}, &Collector{}, &Tracer{},
		&Fabric{}, &FabricPort{}, &FabricPeer{},
	} {
		for _, later := range filledPoints() {
			if later.Key().Measurement == p.Key().Measurement {
				p.Merge(later)
				require.Equal(t, later, p)
			}
		}
		require.False(t, p.Time().IsZero(), "%T", p)
		require.Zero(t, p.Events())
	}
}

func TestEventsAddUp(t *testing.T) {
	p := &Event{Count: 3, Total: 3, First: at(1), At: at(2), HoldMax: 9, AckMax: 1}
	p.Merge(&Event{Count: 4, Total: 7, First: at(3), At: at(4), HoldMax: 8, AckMax: 2})
	require.Equal(t, &Event{Count: 7, Total: 7, First: at(1), At: at(4), HoldMax: 9, AckMax: 2}, p)
	require.Equal(t, uint64(7), p.Events())
}

func TestMergedChangesKeepTheFirstAndTheLastState(t *testing.T) {
	p := &Change{From: verbs.PortDown, To: verbs.PortInit, Transitions: 2, LastedNS: 5, HasLasted: true, At: at(1)}
	p.Merge(&Change{From: verbs.PortInit, To: verbs.PortActive, Transitions: 1, Witness: verbs.WitnessQuery, At: at(2)})
	require.Equal(t, &Change{
		From: verbs.PortDown, To: verbs.PortActive, Transitions: 3, Witness: verbs.WitnessQuery, At: at(2),
	}, p)
}

func TestNamesWithANumberAreFoundByTheirRow(t *testing.T) {
	m := findMetric(t, "rdma_async")
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
	for _, p := range filledPoints() {
		p.Lines(func(l Line) {
			line, err := s.Serialize(metric.New(l.Name, l.Tags, l.Fields, p.Time(), telegraf.Untyped))
			require.NoError(t, err)
			require.Less(t, len(line), 4096, "one write to a pipe")
			got.Write(line)
		})
	}
	const golden = "testdata/filled.influx"
	if *update {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}
