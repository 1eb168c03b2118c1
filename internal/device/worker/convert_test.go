package worker

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/status"
)

// fillFields sets every field of v to a value that is not zero. A field that a conversion omits then differs after the
// conversion. It fails the test if it does not know the kind of a field.
func fillFields(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	if m, ok := v.Addr().Interface().(*verbs.Method); ok {
		*m = verbs.Method(1 + *next%3)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillFields(t, v.Field(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillFields(t, v.Index(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fillFields(t, v.Index(i), next)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillFields(t, v.Elem(), next)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 3 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fillFields(t, key, next)
			fillFields(t, value, next)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString("text" + string(rune('a'+*next%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*next) + 0.5)
	case reflect.Int8, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(-*next)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	default:
		t.Fatalf("no rule for %s", v.Type())
	}
}

func newFilled[T any](t *testing.T) *T {
	t.Helper()
	v, next := new(T), int64(1)
	fillFields(t, reflect.ValueOf(v).Elem(), &next)
	return v
}

func throughWire[M any, PM interface {
	*M
	pb.Message
}](t *testing.T, in PM) PM {
	t.Helper()
	raw, err := pb.Marshal(in)
	require.NoError(t, err)
	out := PM(new(M))
	require.NoError(t, pb.Unmarshal(raw, out))
	return out
}

func oneOfEach(t *testing.T) []verbs.Item {
	t.Helper()
	items := []verbs.Item{
		{Opened: newFilled[verbs.DeviceAttr](t)},
		{Reading: newFilled[verbs.Reading](t)},
		{Probe: newFilled[verbs.ProbeItem](t)},
		{GIDs: newFilled[verbs.GIDTable](t)},
		{Command: newFilled[verbs.Command](t)},
		{Snapshot: newFilled[verbs.Snapshot](t)},
		{Objects: newFilled[verbs.Objects](t)},
		{FabricPort: newFilled[verbs.FabricPort](t)},
		{FabricFacts: newFilled[verbs.FabricFacts](t)},
	}
	require.Len(t, items, reflect.TypeFor[verbs.Item]().NumField()-3, "an item of each kind: After is of all, Run and Round come in the rings")
	for i := range items {
		items[i].After = uint64(10 * i)
	}
	return items
}

func TestEveryBatchFieldCrossesTheBoundaryInOrder(t *testing.T) {
	want := verbs.Batch{Wall: 7, Mono: 8, Items: oneOfEach(t)}
	want.Items = append(want.Items, want.Items[1], want.Items[0])
	got := messageFromProto(throughWire(t, batchToProto(want)))
	require.Equal(t, message{batch: want}, got)
}

func TestEveryRequestFieldCrossesTheBoundary(t *testing.T) {
	want := *newFilled[verbs.Request](t)
	m := throughWire(t, requestToProto(want))
	require.Equal(t, want, requestFromProto(m))
	require.EqualValues(t, contractVersion, m.GetVersion())
}

func TestEveryFieldOfAnOrderCrossesTheBoundary(t *testing.T) {
	join := *newFilled[verbs.FabricOrder](t)
	leave := join
	leave.Peer = nil
	for _, want := range []verbs.FabricOrder{join, leave, {}} {
		got, ok := orderFromProto(throughWire(t, orderToProto(&want)))
		require.True(t, ok)
		require.Equal(t, want, got)
	}
}

func TestAnOrderWhosePeerHasNoWholeGIDIsNone(t *testing.T) {
	m := orderToProto(newFilled[verbs.FabricOrder](t))
	m.Peer.Gid = m.Peer.Gid[:15]
	_, ok := orderFromProto(m)
	require.False(t, ok, "without its peer it would end the pair")
}

func TestWhatAPortSaysOfItsFabricIsBounded(t *testing.T) {
	m := fabricPortToProto(&verbs.FabricPort{UD: make([]uint32, 99), GIDs: make([]verbs.FabricGID, 3)})
	m.Gids[1].Raw = m.Gids[1].Raw[:4]
	p := fabricPortFromProto(throughWire(t, m))
	require.Len(t, p.UD, verbs.MaxFabricPaths)
	require.Len(t, p.GIDs, 2)
}

func TestEmptyBatchStaysAHeartbeat(t *testing.T) {
	got := messageFromProto(throughWire(t, batchToProto(verbs.Batch{Wall: 1, Mono: 2})))
	require.Equal(t, message{batch: verbs.Batch{Wall: 1, Mono: 2}}, got)
}

func TestBytesThatAreNoTextDoNotEndTheStream(t *testing.T) {
	b := verbs.Batch{Items: []verbs.Item{
		{Opened: &verbs.DeviceAttr{Name: "mlx5_0", BoardID: "MT_\xff\xfe0"}},
		{Reading: &verbs.Reading{Err: "\xc3"}},
	}}
	got := messageFromProto(throughWire(t, batchToProto(b))).batch
	require.Equal(t, "MT_?0", got.Items[0].Opened.BoardID)
	require.Equal(t, "?", got.Items[1].Reading.Err)
	end := messageFromProto(throughWire(t, endToProto(status.End{Reason: status.ReasonCrashed, Message: "a\x80b"})))
	require.Equal(t, &status.End{Reason: status.ReasonCrashed, Message: "a?b"}, end.end)
}

func TestAnItemOfAnUnknownKindIsLeftOut(t *testing.T) {
	known := oneOfEach(t)
	m := batchToProto(verbs.Batch{Items: known})
	m.Items = append([]*proto.Item{{}, nil}, m.Items...)
	require.Len(t, messageFromProto(m).batch.Items, len(known))
}

func TestTheSourcesOfCountersAreBounded(t *testing.T) {
	m := &proto.Snapshot{}
	for i := range 1000 {
		m.Counters = append(m.Counters, &proto.Counters{Source: fmt.Sprint(i), Values: map[string]uint64{"x": 1}})
	}
	require.Len(t, snapshotFromProto(m).Counters, maxSources)
}

func TestHoldersAreBounded(t *testing.T) {
	m := &proto.Objects{Lists: make([]*proto.ObjectList, 99), Holders: make([]*proto.Holder, 2*verbs.MaxHolders)}
	m.Holders[0] = &proto.Holder{Thread: 7, Counts: make([]uint32, 99), States: make([]uint32, 99)}
	o := objectsFromProto(throughWire(t, m))
	require.Len(t, o.Holders, verbs.MaxHolders)
	require.Equal(t, 7, o.Holders[0].Thread)
}
