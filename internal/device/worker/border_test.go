package worker

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/status"
)

// now is the time at which the host of these tests reads a message, CLOCK_MONOTONIC ns.
const now = int64(1e12)

func TestAMessageThatNoSoundWorkerSendsIsRefused(t *testing.T) {
	key := verbs.ProbeKey{Port: 1, Method: verbs.MethodFlush}
	for name, it := range map[string]verbs.Item{
		"another device":                {Opened: &verbs.DeviceAttr{Name: "mlx5_1"}},
		"more ports than there can be":  {Opened: &verbs.DeviceAttr{Name: "mlx5_0", Ports: 256}},
		"vectors without end":           {Opened: &verbs.DeviceAttr{Name: "mlx5_0", Vectors: 1 << 20}},
		"a port beyond the verbs":       {Reading: &verbs.Reading{Port: 256}},
		"a negative port":               {GIDs: &verbs.GIDTable{Port: -1}},
		"events of a hundred years":     {Run: &verbs.Run{Port: 1, Count: ledger.ImplausibleCount}},
		"a probe without a method":      {Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 1}}},
		"a method that is none":         {Probe: &verbs.ProbeItem{ProbeKey: verbs.ProbeKey{Port: 1, Method: 77}}},
		"an outcome that is none":       {Round: &verbs.RoundItem{ProbeKey: key, Round: verbs.Round{Outcome: 77}}},
		"a vector that is none":         {Round: &verbs.RoundItem{ProbeKey: verbs.ProbeKey{Port: 1, Vector: -1, Method: verbs.MethodFlush}}},
		"a command that is none":        {Command: &verbs.Command{Port: 1, Call: 99}},
		"triggers without end":          {Snapshot: &verbs.Snapshot{Port: 1, Merged: math.MaxUint64}},
		"facts of a port beyond it all": {FabricFacts: &verbs.FabricFacts{Port: 1 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			m := message{batch: verbs.Batch{Items: []verbs.Item{it}}}
			require.ErrorIs(t, m.check("mlx5_0", now), ErrRefused)
		})
	}
}

func TestWhatFirmwareAndLibrariesSayIsMadeFitForPoints(t *testing.T) {
	long := strings.Repeat("\u00e9", maxText)
	m := messageFromProto(throughWire(t, batchToProto(verbs.Batch{Items: []verbs.Item{
		{Opened: &verbs.DeviceAttr{Name: "mlx5_0", Ports: 1, Vectors: 1, Firmware: "28.39\n\x1b[31m", BoardID: long}},
		{Reading: &verbs.Reading{Port: 1, Attr: verbs.PortAttr{RateGbps: math.Inf(1), MTU: -7, LID: 1 << 20}}},
		{Reading: &verbs.Reading{Port: 1, Attr: verbs.PortAttr{RateGbps: math.NaN()}, Err: "failed\r\nE! all is lost", Refused: "all\nE! of it"}},
		{Reading: &verbs.Reading{Port: 1, Err: strings.Repeat("\u65e0", maxText)}},
	}})))
	require.NoError(t, m.check("mlx5_0", now))
	items := m.batch.Items
	require.Equal(t, "28.39??[31m", items[0].Opened.Firmware)
	require.Equal(t, long[:maxText], items[0].Opened.BoardID)
	require.Zero(t, items[1].Reading.Attr)
	require.Zero(t, items[2].Reading.Attr.RateGbps)
	require.Equal(t, "failed??E! all is lost", items[2].Reading.Err)
	require.Equal(t, "all?E! of it", items[2].Reading.Refused)
	require.Equal(t, strings.Repeat("\u65e0", maxText/3), items[3].Reading.Err, "cut between characters")
}

// CLOCK_MONOTONIC is the same in all processes: nothing is observed after now, nor before the boot.
func TestStampsOfAWorkerAreNeverAheadOfTheHost(t *testing.T) {
	m := message{batch: verbs.Batch{Mono: now + 1, Items: []verbs.Item{
		{Run: &verbs.Run{Port: 1, Count: 1, First: now - 5, Last: now + 24*3600*1e9, AckMax: math.MaxInt64, HoldSum: -1}},
		{Reading: &verbs.Reading{Port: 1, Mono: math.MaxInt64, Took: -3}},
	}}}
	require.NoError(t, m.check("mlx5_0", now))
	require.Equal(t, now, m.batch.Mono)
	require.Equal(t, &verbs.Run{Port: 1, Count: 1, First: now - 5, Last: now, AckMax: now}, m.batch.Items[0].Run)
	require.Equal(t, &verbs.Reading{Port: 1, Mono: now}, m.batch.Items[1].Reading)
}

func TestAReasonOfAWorkerHasTheFormOfReasons(t *testing.T) {
	for encoded, want := range map[string]status.Reason{
		"no_permission": status.ReasonNoPermission, "": status.ReasonCrashed, "ok,device=mlx5_9": status.ReasonCrashed,
		strings.Repeat("x", 33): status.ReasonCrashed,
	} {
		require.Equal(t, want, messageFromProto(endToProto(status.End{Reason: status.Reason(encoded)})).end.Reason, encoded)
	}
}

// A host that has not read for a while gets the waiting items in several messages, each of a size that it accepts.
func TestABatchThatHasWaitedGoesInMessagesThatAreTaken(t *testing.T) {
	counters := verbs.Counters{}
	for _, source := range []verbs.CounterSource{"counters", "hw_counters", "ethtool"} {
		values := map[string]uint64{}
		for i := range maxCounters {
			values[fmt.Sprintf("rx_prio%d_discards_of_a_long_name", i)] = math.MaxUint64
		}
		counters[source] = values
	}
	facts := make([]verbs.FabricFact, 1<<15)
	for i := range facts {
		facts[i] = verbs.FabricFact{Session: math.MaxUint64, Seq: math.MaxUint64, At: now, Took: now, Delay: now, Received: math.MaxUint64}
	}
	holders := make([]verbs.Holder, verbs.MaxHolders)
	for i := range holders {
		holders[i] = verbs.Holder{Thread: math.MaxInt32}
	}
	var b verbs.Batch
	for range 40 {
		b.Items = append(b.Items, verbs.Item{Snapshot: &verbs.Snapshot{Port: 1, Counters: counters}},
			verbs.Item{Objects: &verbs.Objects{Holders: holders}}, verbs.Item{Run: &verbs.Run{Port: 1, Count: 1}},
			verbs.Item{FabricFacts: &verbs.FabricFacts{Port: 1, Facts: facts}},
			verbs.Item{Reading: &verbs.Reading{Port: 1, Err: strings.Repeat("x", maxText)}})
	}
	items, messages := 0, 0
	require.NoError(t, sendParts(b, func(m *proto.Batch) error {
		require.Less(t, pb.Size(m), maxMessage)
		items += len(m.Items)
		messages++
		return nil
	}))
	require.Equal(t, len(b.Items), items)
	require.Greater(t, messages, 1)
	require.NoError(t, sendParts(verbs.Batch{}, func(m *proto.Batch) error { // a heartbeat
		messages = -1
		return nil
	}))
	require.Equal(t, -1, messages)
}

// fillBadly fills every field of a message, also of nested ones, with values that no point can have.
func fillBadly(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		one := func(whole protoreflect.Value) protoreflect.Value {
			switch f.Kind() {
			case protoreflect.StringKind:
				return protoreflect.ValueOfString("a\nb" + strings.Repeat("x", maxText))
			case protoreflect.DoubleKind:
				return protoreflect.ValueOfFloat64(math.Inf(1))
			case protoreflect.MessageKind:
				fillBadly(whole.Message())
				return whole
			}
			return f.Default()
		}
		switch {
		case f.ContainingOneof() != nil && m.WhichOneof(f.ContainingOneof()) != nil: // a message has one of them
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("a\nb").MapKey(), protoreflect.ValueOfUint64(1))
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			fillBadly(m.Mutable(f).List().AppendMutable().Message())
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			m.Mutable(f).List().Append(one(protoreflect.Value{}))
		case f.IsList():
		case f.Kind() == protoreflect.MessageKind:
			one(m.Mutable(f))
		default:
			m.Set(f, one(protoreflect.Value{}))
		}
	}
}

func TestEveryTextAndFloatOfAWorkerIsMadeFitForPoints(t *testing.T) {
	items := (&proto.Item{}).ProtoReflect().Descriptor().Fields()
	for i := range items.Len() {
		f := items.Get(i)
		if f.Name() == "after" {
			continue // a number of runs, of which any value is harmless to Inbox
		}
		t.Run(string(f.Name()), func(t *testing.T) {
			it := &proto.Item{}
			fillBadly(it.ProtoReflect().Mutable(f).Message())
			if d := it.GetOpened(); d != nil {
				d.Name = "mlx5_0"
			}
			m := messageFromProto(&proto.Batch{Items: []*proto.Item{it}})
			require.True(t, m.end != nil || len(m.batch.Items) == 1)
			requireBounded(t, reflect.ValueOf(m.batch.Items))
			requireBounded(t, reflect.ValueOf(m.end))
		})
	}
}

// Whatever bytes a worker sends, the host's points and status can be written, are bounded, and are about the worker's device.
func FuzzNoBytesOfAWorkerReachBeyondItsDevice(f *testing.F) {
	for _, it := range []verbs.Item{
		{Opened: &verbs.DeviceAttr{Name: "mlx5_0", Ports: 2, Vectors: 8, Firmware: "28"}},
		{Reading: &verbs.Reading{Port: 1, Attr: verbs.PortAttr{RateGbps: math.Inf(-1), Width: "4x"}}},
		{Snapshot: &verbs.Snapshot{Port: 1, Counters: verbs.Counters{"counters": {"a\tb": 1}}, LeftOut: []string{"x"}}},
		{GIDs: &verbs.GIDTable{Port: 1, Entries: []verbs.GID{{Index: 3, NetDev: "net1", OtherNetns: true}}}},
	} {
		raw, err := pb.Marshal(batchToProto(verbs.Batch{Wall: 1, Mono: 2, Items: []verbs.Item{it}}))
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var sent proto.Batch
		if pb.Unmarshal(raw, &sent) != nil {
			return
		}
		m := messageFromProto(&sent)
		if m.check("mlx5_0", now) != nil {
			return
		}
		_, err := json.Marshal(m.batch)
		require.NoError(t, err)
		for i := range m.batch.Items {
			if a := m.batch.Items[i].Opened; a != nil {
				require.Equal(t, "mlx5_0", a.Name)
			}
		}
		requireBounded(t, reflect.ValueOf(m.batch.Items))
	})
}

// requireBounded requires that a point can have every text and float in v.
func requireBounded(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		require.LessOrEqual(t, len(s), maxText)
		require.True(t, utf8.ValidString(s))
		require.Negative(t, strings.IndexFunc(s, unicode.IsControl), "%q", s)
	case reflect.Float64:
		require.GreaterOrEqual(t, v.Float(), 0.0)
		require.LessOrEqual(t, v.Float(), maxRate)
	case reflect.Pointer:
		if !v.IsNil() {
			requireBounded(t, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			requireBounded(t, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			requireBounded(t, v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			requireBounded(t, key)
			requireBounded(t, v.MapIndex(key))
		}
	}
}
