package measure

import (
	"net/netip"
	"reflect"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/expect"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/aggregate"
)

// at returns a fixed time plus ms, which is easy to read in line protocol.
func at(ms int) time.Time { return time.Unix(1_700_000_000, int64(ms)*1e6).UTC() }

// eventCounts returns every event type of the scopes with a count. The first count is from, and each next one is greater by 1.
func eventCounts(from uint64, scopes ...verbs.Scope) []EventCount {
	var counts []EventCount
	for _, scope := range scopes {
		for _, t := range verbs.EventTypes(scope) {
			counts = append(counts, EventCount{Type: t, Total: from, Rate: float64(from) / 10})
			from++
		}
	}
	return counts
}

// withCounts returns v with 2 in each count that was 0, so that this file need not name new counts.
func withCounts[T any](v T) T {
	setCounts(reflect.ValueOf(&v).Elem())
	return v
}

func setCounts(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			if f.IsZero() {
				f.SetUint(2)
			}
		case reflect.Struct:
			if f.CanSet() {
				setCounts(f)
			}
		}
	}
}

func statOf(n int64) aggregate.Stat { return aggregate.Stat{Count: 3, Mean: n, Max: 2 * n} }

// percentilesFrom returns percentiles that rise from n.
func percentilesFrom(n int64) aggregate.Percentiles {
	return aggregate.Percentiles{Count: 9, P50: n, P90: n + 1, P99: n + 2}
}

// filledPoints returns points of all measurements in which every field is known.
func filledPoints() []Point {
	own := eventCounts(10, verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ)
	own = append(own, EventCount{Type: 33, Total: 2, Rate: 0.2})
	probe := filledProbe()
	histogram := &Histogram{Device: probe.Device, ProbeKey: probe.ProbeKey, Below: make([]uint64, 17), Sum: 8_500_000_000, At: at(0)}
	for i := range histogram.Below {
		histogram.Below[i] = uint64(i * 100)
	}
	points := []Point{
		&Async{
			Device: "mlx5_0", Types: own, Read: 20, Acked: 17, Unacked: 2, Released: 1, Hold: statOf(900), Ack: statOf(40),
			At: at(0),
		},
		&Async{
			Device: "mlx5_0", Port: 1, Types: eventCounts(1, verbs.ScopePort), Read: 5, Acked: 5, Hold: statOf(800), Ack: statOf(30),
			At: at(0),
		},
		filledPort(), probe, histogram, filledDevice(), &Command{
			Device: "mlx5_0", Port: 1, Call: verbs.CommandHWCounters, Role: verbs.RoleManagement, Calls: 9, Errors: 3, Status: "ETIMEDOUT",
			BusyNS: 6_000_000_000, Stuck: true, Took: statOf(45_000), TookP: percentilesFrom(44_000), At: at(0),
		},
	}
	points = append(points, filledFabric()...)
	host := &Host{
		HostTotals: HostTotals{Flaps: 3, MissedTransitions: 1, LostEvents: 2, LostCompletions: 1, Errors: 3, GIDMoves: 2}, At: at(0),
		Apps: &HostApps{Errors: 5, Hangs: 2, UnreadErrors: 3, Attached: true},
	}
	for _, p := range points {
		host.Add(p)
	}
	return append(points, host, &Collector{
		FunctionsSkipped: 12, ExpectedMissing: 2, ExpectedMissingOf: "2 of 8 that match mlx5_[0-7]", Counted: true,
		Devices: 1, Workers: 1, WorkerRestarts: 2, WorkersStuck: 0, AsyncEvents: 25,
		DeliveryP: percentilesFrom(80_000), WorkerRSS: 14 << 20,
		Queue:    Queue{Merged: 4, Dropped: 0, Skipped: 1, Length: 5, Capacity: 1000},
		Recorder: &Recorder{Recorded: 12, Errors: 2, Lost: 3}, EvidenceMerged: 2,
		Usage: Usage{Uptime: 3_600_000_000_000, CPU: 1_200_000_000, RSS: 13 << 20},
		At:    at(0),
	}, &Event{
		Device: "mlx5_0", Type: verbs.EventPortErr, Port: 1, Count: 3, Total: 4,
		At: at(250), First: at(240), HoldMax: 950, AckMax: 45, LateNS: 12_000_000_000,
	}, &Change{
		Device: "mlx5_0", Port: 1, From: verbs.PortActive, To: verbs.PortDown, Witness: verbs.WitnessEvent,
		LastedNS: 60_000_000_000, HasLasted: true, Transitions: 1, At: at(251),
	}, &GIDChange{
		Device: "mlx5_0", Port: 1, Action: verbs.GIDMoved, From: 3, To: 5, AwayNS: 412_000_000, Probed: true, Reopened: true,
		GID: verbs.GID{
			Index: 5, Raw: netip.MustParseAddr("::ffff:10.4.0.1").As16(), Type: verbs.GIDRoCEv2, NetDev: "eth0",
		},
		Changes: 1, At: at(252),
	}, &AttrChange{Device: "mlx5_0", Port: 1, Attr: "mtu", From: "4096", To: "1024", Changes: 1, At: at(253)}, filledEvidence(at(254)), filledApp(),
		filledAppAsync(), &AppEvent{
			Device: "mlx5_0", App: "python3", Type: verbs.EventQPFatal, Count: 2, Total: 9, First: at(255), PID: 4711, Number: 284,
			Unit: "job_1870", At: at(256),
		}, &AppHang{
			Device: "mlx5_0", App: "python3", Object: verbs.ScopeQP, Threads: 1, Age: 12_000_000_000, Missing: 1, PID: 4711, TID: 4713,
			Number: 284, Unit: "job_1870", Proof: trace.ProofAsleep, At: at(0),
		}, &Problem{
			Alert: "app-hang", Severity: "critical", Device: "mlx5_0", Port: 1, Of: "python3 qp", Active: true, Since: at(-12_000),
			Text: "a thread hangs", FirstStep: "Look at its stack.", At: at(0),
		}, &Tracer{
			Attached: true, Hooks: "kprobe", Missing: 1,
			Worker: status.Status{State: status.StateRunning, Reason: status.ReasonOK, Restarts: 2, PID: 4720}, Gaps: 2,
			Blind: 3_100_000_000, Lost: 4, Full: 1, Processes: 8, Load: 870_000_000, CPU: 40_000_000, RSS: 12 << 20, At: at(0),
		})
}

func filledApp() *App {
	held := func(n int64) Held { return Held{Count: n, Known: true} }
	return &App{
		Device: "mlx5_0", App: "python3", Unit: "job_1870", Processes: held(8), Contexts: held(16), PDs: held(17), CQs: held(64),
		SRQs: held(4), QPs: held(520),
		States: [verbs.QPStates]Held{held(1), held(2), held(3), held(510), held(0), held(0), held(4)}, At: at(0),
	}
}

func filledAppAsync() *AppAsync {
	a := &AppAsync{
		Device: "mlx5_0", App: "python3", Unit: "job_1870", Attached: true, Unread: 3, UnreadErrors: 2, UnreadAge: 71_000_000_000,
		Delay: statOf(35_000), At: at(0),
	}
	for _, e := range eventCounts(1, verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ) {
		a.Types[e.Type] = e.Total
	}
	a.Processes, a.Discarded, a.Skipped, a.DestroyedUnacked = 8, 4, 1, 6
	a.Read = a.Queued() - a.Discarded - a.Skipped - a.Unread
	return a
}

func filledFabric() []Point {
	counts := withCounts(FabricCounts{
		Pairs: 8, PairsMet: 7, PairsBad: 1, PairsBusy: 1, PairsDown: 2, Counts: verdict.Counts{
			Sent: 1000, Answered: 940, ForwardLost: 20, ReverseLost: 15, BusyLost: 12, UnknownLost: 10, Pending: 3,
			Writes: 980, WritesOK: 970, WritesLate: 4, WriteErrors: 9, Reconnects: 6,
		},
	})
	latencies := FabricLatencies{EchoP: percentilesFrom(8000), EchoMax: 9000, ResponderP: percentilesFrom(3000), WriteP: percentilesFrom(4000), WriteMax: 5000}
	return []Point{
		&Fabric{OwnGroup: "rack1", PeerGroup: "rack2", Scope: "across", FabricCounts: counts, FabricLatencies: latencies, At: at(0)},
		&FabricPort{
			Device: "mlx5_0", Port: 1, OwnGroup: "rack1", Role: verbs.RoleManagement, FabricCounts: counts, FabricLatencies: latencies,
			Verdict: "own_link", Bad: true, VerdictAgeNS: 12_000_000_000, List: "0123456789abcdef", FabricProberCounts: FabricProberCounts{
				FabricCounts: ledger.FabricCounts{Events: 3000, Acked: 2990, Spurious: 7, Echoed: 950, Refused: 2, Foreign: 3, Dry: 1},
				Unacked:      1, Released: 9,
			}, At: at(0),
		},
		&FabricPeer{
			Device: "mlx5_0", Port: 1, OwnGroup: "rack1", PeerHost: "gpu042", PeerDevice: "mlx5_0", PeerGroup: "rack2", Scope: "across",
			Verdict: "partial", Bad: true, AgeNS: 8_000_000_000, Direction: "forward", Path: 3, WriteNSP50: 4100, State: "active", At: at(257),
			Probes: withCounts(verdict.Counts{ForwardLost: 12, ReverseLost: 5}),
		},
		&FabricPeer{
			Device: "mlx5_0", Port: 1, OwnGroup: "rack1", PeerHost: "gpu043", PeerGroup: "rack1", Scope: "group", AgeNS: 60_000_000_000,
			Reason: "not_listed", At: at(0),
		},
	}
}

func filledEvidence(at time.Time) *Evidence {
	return &Evidence{
		Device: "mlx5_0", Port: 1, Trigger: "port_err", Cause: cause.NoCable, Triggers: 2,
		HasSnapshot: true, AgeNS: 10_400_000, TookNS: 6_000_000,
		NetDev: &verbs.NetDev{
			Name: "eth0", AdminUp: true, HasCarrier: true, CarrierChanges: 5, HasCarrierChanges: true,
		},
		ExtState: "no_cable", LeftOut: "aer: the device took 2s to answer a command",
		HasBase: true, BaseAgeNS: 41_000_000_000, Top: "rx_prio3_pause +48213",
		Deltas: cause.Deltas{{Source: verbs.CountersNetDev, Name: "rx_prio3_pause", By: 48213}}, At: at,
	}
}

func filledProbe() *Probe {
	return &Probe{
		Device: "mlx5_0", ProbeKey: verbs.ProbeKey{Port: 1, Vector: 0, Method: verbs.MethodRCWrite}, Role: verbs.RoleManagement,
		Counts: ledger.ProbeCounts{
			Rounds: 107, Successes: 94, Errors: 3, LostEvents: 2, LostCompletions: 1,
			Events: 98, Acked: 96, Spurious: 4, Late: 5, Resent: 6, Disturbed: 7,
		},
		Unacked: 1, Released: 1, EventsRate: 1, OK: true, HasOK: true, Status: "IBV_WC_RETRY_EXC_ERR",
		Wake: statOf(5000), Ack: statOf(100), Hold: statOf(1500), Total: statOf(7000),
		Get: statOf(200), Arm: statOf(60), Drain: statOf(70),
		WakeP: percentilesFrom(4900), AckP: percentilesFrom(90), HoldP: percentilesFrom(1400), TotalP: percentilesFrom(6900),
		GetP: percentilesFrom(190), ArmP: percentilesFrom(50), DrainP: percentilesFrom(65),
		At: at(0),
	}
}

func filledPort() *Port {
	return &Port{
		Device: "mlx5_0", Port: 1, Expected: true, Role: verbs.RoleManagement, Known: true, HasState: true, State: verbs.PortActive,
		Attr: withCounts(verbs.PortAttr{
			State: verbs.PortActive, Phys: 5, LinkLayer: verbs.LinkInfiniBand, MTU: 4096, LID: 7, SMLID: 1,
			Width: "4x", RateGbps: 100, EffectiveGbps: 90, NetDev: "ib0", LinkDowned: 3, HasLinkDowned: true,
		}),
		RateBestGbps: 200, RateExpectedGbps: 400, ExpectedReason: expect.ReasonExpectedDown, Legs: 2, LegsUp: 1, HasLegs: true, Cable: "506b:4b03:00aa:0000/0/1",
		Transitions: 6, Flaps: 3, FlapsDay: 2, DownNS: 2_500_000_000, StateAgeNS: 60_000_000_000, HasStateAge: true,
		MissedTransitions: 1, PhantomEvents: 2, GIDs: 4, HasGIDs: true, GIDMoves: 2, At: at(0),
		Quality: Quality{
			Corrected: 1_000_000, Uncorrectable: 70, WhileActive: 5, HasFEC: true, SymbolErrors: 17, HasSymbolErrors: true,
			MilliCelsius: 61_500, HasTemperature: true,
		},
	}
}

func filledDevice() *Device {
	return &Device{
		Device: "mlx5_0", Present: true, Open: true, Opens: 3, Removals: 1, Fatals: 1, FunctionRemovals: 4, UnplannedRemovals: 5, Reason: status.ReasonOK,
		Link:         verbs.PCILink{SpeedGTs: 16, Width: 8, BestSpeedGTs: 32, BestWidth: 16},
		InOtherNetns: true, OtherNetnsNS: 90_000_000_000,
		Worker: status.Status{State: status.StateRunning, Restarts: 2, Crashes: 1, PID: 4711},
		Attr: verbs.DeviceAttr{
			Name: "mlx5_0", Ports: 1, Vectors: 63, EventsSupported: true, NodeGUID: "506b:4b03:00aa:0001",
			SysImageGUID: "506b:4b03:00aa:0000", PCIAddress: "0000:3b:00.0", NUMANode: 0, BoardID: "MT_0000000010",
			Driver: "mlx5_core", Transport: "infiniband", Firmware: "22.39.2048",
		},
		At: at(0),
	}
}
