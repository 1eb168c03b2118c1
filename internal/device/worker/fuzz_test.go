package worker

import (
	"encoding/binary"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/protobuf/proto"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
)

// byteSource fills values with the bytes of a fuzz test, and with zeros once the
// bytes are used up.
type byteSource []byte

func (c *byteSource) bits() uint64 {
	var b [8]byte
	*c = (*c)[copy(b[:], *c):]
	return binary.LittleEndian.Uint64(b[:])
}

// fill fills v with values that its fields can have: an int has at most 32 bits, floats are
// rates, and text is UTF-8 without control characters, since the conversion changes other
// text (TestBytesThatAreNoTextDoNotEndTheStream).
func (c *byteSource) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			c.fill(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			c.fill(v.Index(i))
		}
	case reflect.Slice:
		if n := int(c.bits() % 4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			c.fill(v.Index(i))
		}
	case reflect.Pointer:
		if c.bits()%2 == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			c.fill(v.Elem())
		}
	case reflect.String:
		n := min(int(c.bits()%16), len(*c))
		v.SetString(cleanText(strings.ToValidUTF8(string((*c)[:n]), "?")))
		*c = (*c)[n:]
	case reflect.Bool:
		v.SetBool(c.bits()%2 == 1)
	case reflect.Float64:
		v.SetFloat(cleanRate(math.Float64frombits(c.bits())))
	case reflect.Int:
		v.SetInt(int64(int32(c.bits())))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(c.bits()) >> (64 - v.Type().Bits()))
	default:
		v.SetUint(c.bits() >> (64 - v.Type().Bits()))
	}
}

func drawValue[T any](c *byteSource) *T {
	v := new(T)
	c.fill(reflect.ValueOf(v).Elem())
	return v
}

func (c *byteSource) item() verbs.Item {
	after := c.bits()
	switch c.bits() % 6 {
	case 0:
		return verbs.Item{After: after, Opened: drawValue[verbs.DeviceAttr](c)}
	case 1:
		return verbs.Item{After: after, Reading: drawValue[verbs.Reading](c)}
	case 2:
		return verbs.Item{After: after, Objects: drawValue[verbs.Objects](c)}
	case 3:
		return verbs.Item{After: after, FabricPort: drawValue[verbs.FabricPort](c)}
	case 4:
		return verbs.Item{After: after, FabricFacts: drawValue[verbs.FabricFacts](c)}
	}
	return verbs.Item{After: after, Probe: drawValue[verbs.ProbeItem](c)}
}

func FuzzABatchArrivesAsItWasSent(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00mlx5_0 and the like, in eights of bytes"))
	f.Add([]byte(strings.Repeat("\xff\x00\x80\xc3", 200)))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := (*byteSource)(&in)
		batch := verbs.Batch{Wall: int64(c.bits()), Mono: int64(c.bits())}
		for len(in) > 0 {
			batch.Items = append(batch.Items, c.item())
		}
		require.Equal(t, message{batch: batch}, messageFromProto(throughWire(t, batchToProto(batch))))
	})
}

func FuzzARequestArrivesAsItWasSent(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(strings.Repeat("verbs sim rc_write", 40)))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := *drawValue[verbs.Request]((*byteSource)(&in))
		r.Options.Probe.Method = verbs.Method(len(in)%5) + verbs.MethodAuto // a valid one, since it is sent by name
		require.Equal(t, r, requestFromProto(throughWire(t, requestToProto(r))))
	})
}

func FuzzAnOrderArrivesAsItWasSent(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(strings.Repeat("\x01\x00\x00\x00\x00\x00\x00\x00gpu042 mlx5_0 and what it is reached by", 20)))
	f.Fuzz(func(t *testing.T, in []byte) {
		o := *drawValue[verbs.FabricOrder]((*byteSource)(&in))
		got, ok := orderFromProto(throughWire(t, orderToProto(&o)))
		require.True(t, ok)
		require.Equal(t, o, got)
	})
}

// A message decoded from arbitrary bytes must not change when it is converted to protobuf and
// back again.
func FuzzNoBytesMakeTheConversionPanic(f *testing.F) {
	seed, err := pb.Marshal(batchToProto(verbs.Batch{Wall: 1, Items: []verbs.Item{
		{Reading: &verbs.Reading{Port: 1, Mono: 3}, After: 7},
		{FabricPort: &verbs.FabricPort{Port: 1, Epoch: 7, GIDs: []verbs.FabricGID{{Index: 3}}, UD: []uint32{17, 18}}},
		{FabricFacts: &verbs.FabricFacts{Port: 1, Epoch: 7, Facts: []verbs.FabricFact{{Kind: verbs.FabricLate, Pair: -1}}}},
	}}))
	require.NoError(f, err)
	f.Add(seed)
	order, err := pb.Marshal(orderToProto(&verbs.FabricOrder{Port: 1, Epoch: 7, Peer: &verbs.FabricPeer{UD: []uint32{17}}}))
	require.NoError(f, err)
	f.Add(order)
	f.Add([]byte{0x1a, 0x02, 0x0a, 0x00})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b proto.Batch
		if pb.Unmarshal(raw, &b) == nil {
			encoded := batchToProto(messageFromProto(&b).batch)
			requireSame(t, encoded, batchToProto(messageFromProto(throughWire(t, encoded)).batch))
		}
		var r proto.WatchRequest
		if pb.Unmarshal(raw, &r) == nil {
			encoded := requestToProto(requestFromProto(&r))
			requireSame(t, encoded, requestToProto(requestFromProto(throughWire(t, encoded))))
		}
		var o proto.FabricOrder
		if pb.Unmarshal(raw, &o) == nil {
			if order, ok := orderFromProto(&o); ok {
				encoded := orderToProto(&order)
				again, ok := orderFromProto(throughWire(t, encoded))
				require.True(t, ok)
				requireSame(t, encoded, orderToProto(&again))
			}
		}
	})
}

// requireSame compares encoded messages, since a NaN rate is not equal to itself.
func requireSame(t *testing.T, want, got pb.Message) {
	t.Helper()
	one := pb.MarshalOptions{Deterministic: true}
	a, err := one.Marshal(want)
	require.NoError(t, err)
	b, err := one.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, a, b)
}
