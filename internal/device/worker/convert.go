package worker

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/device/worker/proto"
	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/sys/status"
)

func toInt64s(in []int) []int64 {
	var out []int64
	for _, v := range in {
		out = append(out, int64(v))
	}
	return out
}

func toInts(in []int64) []int {
	var out []int
	for _, v := range in {
		out = append(out, int(v))
	}
	return out
}

func requestToProto(r verbs.Request) *proto.WatchRequest {
	o, p := r.Options, r.Options.Probe
	return &proto.WatchRequest{
		Version: contractVersion,
		Backend: sanitize.UTF8(r.Backend),
		Options: &proto.Options{
			Device:             sanitize.UTF8(o.Device),
			Ports:              toInt64s(o.Ports),
			StateIntervalNs:    int64(o.StateInterval),
			GidIntervalNs:      int64(o.GIDInterval),
			CommandIntervalNs:  int64(o.CommandInterval),
			CommandStuckNs:     int64(o.CommandStuck),
			SnapshotIntervalNs: int64(o.SnapshotInterval),
			Ethtool:            uint32(o.Ethtool),
			Objects:            o.Objects,
			EveryReading:       o.EveryReading,
			Fabric:             fabricOptionsToProto(o.Fabric),
			Probe: &proto.ProbeOptions{
				IntervalNs: int64(p.Interval),
				TimeoutNs:  int64(p.Timeout),
				Method:     p.Method.String(),
				Vectors:    toInt64s(p.Vectors),
				AckBatch:   int64(p.AckBatch),
				GidIndex:   int64(p.GIDIndex),
				PkeyIndex:  int64(p.PKeyIndex),
			},
		},
		Sim: &proto.Sim{
			Profile:  sanitize.UTF8(r.Sim.Profile),
			Scenario: sanitize.UTF8(r.Sim.Scenario),
			Seed:     r.Sim.Seed,
			Epoch:    r.Sim.Epoch,
		},
	}
}

func requestFromProto(m *proto.WatchRequest) verbs.Request {
	o, p, s := m.GetOptions(), m.GetOptions().GetProbe(), m.GetSim()
	return verbs.Request{
		Backend: m.GetBackend(),
		Options: verbs.Options{
			Device:           o.GetDevice(),
			Ports:            toInts(o.GetPorts()),
			StateInterval:    time.Duration(o.GetStateIntervalNs()),
			GIDInterval:      time.Duration(o.GetGidIntervalNs()),
			CommandInterval:  time.Duration(o.GetCommandIntervalNs()),
			CommandStuck:     time.Duration(o.GetCommandStuckNs()),
			SnapshotInterval: time.Duration(o.GetSnapshotIntervalNs()),
			Ethtool:          verbs.Ethtool(o.GetEthtool()),
			Objects:          o.GetObjects(),
			EveryReading:     o.GetEveryReading(),
			Fabric:           fabricOptionsFromProto(o.GetFabric()),
			Probe: verbs.ProbeOptions{
				Interval:  time.Duration(p.GetIntervalNs()),
				Timeout:   time.Duration(p.GetTimeoutNs()),
				Method:    methodFromProto(p.GetMethod()),
				Vectors:   toInts(p.GetVectors()),
				AckBatch:  int(p.GetAckBatch()),
				GIDIndex:  int(p.GetGidIndex()),
				PKeyIndex: int(p.GetPkeyIndex()),
			},
		},
		Sim: verbs.Simulation{
			Profile: s.GetProfile(), Scenario: s.GetScenario(),
			Seed: s.GetSeed(), Epoch: s.GetEpoch(),
		},
	}
}

// methodFromProto returns the method with this name, or MethodAuto if the name is unknown.
func methodFromProto(name string) verbs.Method {
	if m, ok := verbs.ParseMethod(name); ok {
		return m
	}
	return verbs.MethodAuto
}

// endToProto returns the final message of a worker.
func endToProto(e status.End) *proto.Batch {
	return &proto.Batch{Items: []*proto.Item{{What: &proto.Item_Ended{Ended: &proto.Ended{
		Reason: sanitize.UTF8(string(e.Reason)), Message: sanitize.UTF8(e.Message),
	}}}}}
}

// maxBatchSize is the greatest size of a batch in one message, in bytes as itemSize estimates them. Larger batches are
// split. Otherwise a host that has not read for a while would get a message larger than maxMessage.
const maxBatchSize = 4 << 20

// itemSize returns an upper estimate of the bytes of an item in a message.
func itemSize(i *verbs.Item) int {
	const fields, entry = 1 << 10, 128
	switch {
	case i.GIDs != nil:
		return fields + entry*len(i.GIDs.Entries)
	case i.Objects != nil:
		return fields + entry*len(i.Objects.Holders)
	case i.FabricFacts != nil:
		return fields + entry*len(i.FabricFacts.Facts)
	case i.Snapshot != nil:
		n := fields * (1 + len(i.Snapshot.LeftOut))
		for _, values := range i.Snapshot.Counters {
			n += entry * len(values)
		}
		return n
	}
	return fields
}

// sendParts sends a batch in as many messages as its size requires.
func sendParts(b verbs.Batch, send func(*proto.Batch) error) error {
	for {
		n, sum := 0, 0
		for n < len(b.Items) && (n == 0 || sum+itemSize(&b.Items[n]) <= maxBatchSize) {
			sum += itemSize(&b.Items[n])
			n++
		}
		part := b
		part.Items = b.Items[:n]
		if err := send(batchToProto(part)); err != nil {
			return err
		}
		if b.Items = b.Items[n:]; len(b.Items) == 0 {
			return nil
		}
	}
}

func batchToProto(b verbs.Batch) *proto.Batch {
	m := &proto.Batch{Wall: b.Wall, Mono: b.Mono}
	for i := range b.Items {
		item := itemToProto(&b.Items[i])
		item.After = b.Items[i].After
		m.Items = append(m.Items, item)
	}
	return m
}

// messageFromProto converts a message, without items of an unknown kind.
func messageFromProto(m *proto.Batch) message {
	out := message{batch: verbs.Batch{Wall: m.GetWall(), Mono: m.GetMono()}}
	for _, item := range m.GetItems() {
		if e := item.GetEnded(); e != nil {
			out.end = &status.End{Reason: cleanReason(e.GetReason()), Message: cleanText(e.GetMessage())}
		} else if i, ok := itemFromProto(item); ok {
			i.After = item.GetAfter()
			out.batch.Items = append(out.batch.Items, i)
		}
	}
	return out
}

func itemToProto(i *verbs.Item) *proto.Item {
	switch {
	case i.Opened != nil:
		return &proto.Item{What: &proto.Item_Opened{Opened: deviceToProto(i.Opened)}}
	case i.Reading != nil:
		return &proto.Item{What: &proto.Item_Reading{Reading: readingToProto(i.Reading)}}
	case i.Probe != nil:
		return &proto.Item{What: &proto.Item_Probe{Probe: &proto.ProbeItem{
			Port: int64(i.Probe.Port), Vector: int64(i.Probe.Vector),
			Method: int32(i.Probe.Method), Reason: sanitize.UTF8(i.Probe.Reason),
		}}}
	case i.GIDs != nil:
		return &proto.Item{What: &proto.Item_Gids{Gids: gidsToProto(i.GIDs)}}
	case i.Command != nil:
		return &proto.Item{What: &proto.Item_Command{Command: commandToProto(i.Command)}}
	case i.Snapshot != nil:
		return &proto.Item{What: &proto.Item_Snapshot{Snapshot: snapshotToProto(i.Snapshot)}}
	case i.Objects != nil:
		return &proto.Item{What: &proto.Item_Objects{Objects: objectsToProto(i.Objects)}}
	case i.FabricPort != nil:
		return &proto.Item{What: &proto.Item_FabricPort{FabricPort: fabricPortToProto(i.FabricPort)}}
	case i.FabricFacts != nil:
		return &proto.Item{What: &proto.Item_FabricFacts{FabricFacts: fabricFactsToProto(i.FabricFacts)}}
	}
	return &proto.Item{}
}

func itemFromProto(m *proto.Item) (verbs.Item, bool) {
	switch w := m.GetWhat().(type) {
	case *proto.Item_Opened:
		return verbs.Item{Opened: deviceFromProto(w.Opened)}, true
	case *proto.Item_Reading:
		return verbs.Item{Reading: readingFromProto(w.Reading)}, true
	case *proto.Item_Probe:
		return verbs.Item{Probe: &verbs.ProbeItem{
			ProbeKey: verbs.ProbeKey{
				Port: int(w.Probe.GetPort()), Vector: int(w.Probe.GetVector()), Method: verbs.Method(w.Probe.GetMethod()),
			},
			Reason: cleanText(w.Probe.GetReason()),
		}}, true
	case *proto.Item_Gids:
		return verbs.Item{GIDs: gidsFromProto(w.Gids)}, true
	case *proto.Item_Snapshot:
		return verbs.Item{Snapshot: snapshotFromProto(w.Snapshot)}, true
	case *proto.Item_Objects:
		return verbs.Item{Objects: objectsFromProto(w.Objects)}, true
	case *proto.Item_Command:
		return verbs.Item{Command: commandFromProto(w.Command)}, true
	case *proto.Item_FabricPort:
		return verbs.Item{FabricPort: fabricPortFromProto(w.FabricPort)}, true
	case *proto.Item_FabricFacts:
		return verbs.Item{FabricFacts: fabricFactsFromProto(w.FabricFacts)}, true
	}
	return verbs.Item{}, false
}
