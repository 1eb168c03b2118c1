package cause

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

const soon = 20 * time.Millisecond

var momentSoon = MomentAfter(soon)

// Each test of this file starts from one of these facts.
var (
	wentDown = Facts{LinkLayer: verbs.LinkEthernet, Before: verbs.PortActive, After: verbs.PortDown}
	steady   = Facts{LinkLayer: verbs.LinkEthernet, Before: verbs.PortActive, After: verbs.PortActive}
	steadyIB = Facts{LinkLayer: verbs.LinkInfiniBand, Before: verbs.PortActive, After: verbs.PortActive}
)

func with(f Facts, changes ...func(*Facts)) Facts {
	for _, change := range changes {
		change(&f)
	}
	return f
}

func withNetDev(up, carrier Flag, at Moment) func(*Facts) {
	return func(f *Facts) { f.NetDev = NetDev{at, up, carrier} }
}
func withExtState(name string, at Moment) func(*Facts) {
	return func(f *Facts) { f.ExtState = ExtState{at, name} }
}
func wasRemoved(since time.Duration) func(*Facts) {
	return func(f *Facts) { f.Removed = MomentAfter(since) }
}
func wasFatal(since time.Duration) func(*Facts) {
	return func(f *Facts) { f.Fatal = MomentAfter(since) }
}
func wasStuck(since time.Duration) func(*Facts) {
	return func(f *Facts) { f.Stuck = MomentAfter(since) }
}
func withGIDs(changed int, isDefault bool, at Moment) func(*Facts) {
	return func(f *Facts) {
		f.GIDs = GIDs{Moment: at}
		if isDefault {
			f.GIDs.Add(verbs.GIDRemoved, defaultGID(1, "eth0"), 0)
			f.GIDs.Add(verbs.GIDAdded, defaultGID(2, "eth0"), -1)
		}
		for range changed {
			f.GIDs.Add(verbs.GIDMoved, verbs.GID{Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10}}, 3)
		}
	}
}
func defaultGID(mac byte, netdev string) verbs.GID {
	return verbs.GID{Raw: [16]byte{0: 0xfe, 1: 0x80, 8: 2, 11: 0xff, 12: 0xfe, 15: mac}, NetDev: netdev}
}

// changeDefaultGID returns a change of a default GID, together with another address.
func changeDefaultGID(a verbs.GIDAction, netdev string) func(*Facts) {
	return func(f *Facts) {
		f.GIDs.Moment = momentSoon
		f.GIDs.Add(a, defaultGID(1, netdev), 0)
		f.GIDs.Add(verbs.GIDAdded, verbs.GID{Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10}, NetDev: netdev}, -1)
	}
}

// moveDefaultGID returns a change of a MAC address after which the link-local address stays. The
// GID of that address was the default GID, at index from.
func moveDefaultGID(from int) func(*Facts) {
	return func(f *Facts) {
		f.GIDs.Moment = momentSoon
		f.GIDs.Add(verbs.GIDMoved, defaultGID(1, "eth0"), from)
		f.GIDs.Add(verbs.GIDAdded, defaultGID(2, "eth0"), -1)
	}
}

func withSMLIDs(from, to int, at Moment) func(*Facts) {
	return func(f *Facts) { f.SMLID = SMLID{at, from, to} }
}
func withStates(before, after verbs.PortState) func(*Facts) {
	return func(f *Facts) { f.Before, f.After = before, after }
}
func setAnswered(f *Facts) { f.Answered = true }

func withTrigger(why verbs.Trigger) func(*Facts) {
	return func(f *Facts) { f.Trigger = why }
}

func withLinkLayer(l verbs.LinkLayer) func(*Facts) {
	return func(f *Facts) { f.LinkLayer = l }
}

var (
	isDown    = withNetDev(No, Unknown, momentSoon)
	noCarrier = withNetDev(Yes, No, momentSoon)
	noCable   = withExtState("no_cable", momentSoon)
)

func requireCauses(t *testing.T, table map[string]struct {
	facts Facts
	want  Cause
}) {
	t.Helper()
	for name, c := range table {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Of(c.facts)) })
	}
}

type causes = map[string]struct {
	facts Facts
	want  Cause
}

func TestCausesOfALinkThatWentDown(t *testing.T) {
	requireCauses(t, causes{
		"set down":                    {with(wentDown, isDown), AdminDown},
		"no carrier":                  {with(wentDown, noCarrier), NoCarrier},
		"no cable":                    {with(wentDown, noCarrier, noCable), NoCable},
		"a bad cable":                 {with(wentDown, noCarrier, withExtState("cable_issue", momentSoon)), CableIssue},
		"a bad signal":                {with(wentDown, noCarrier, withExtState("bad_signal_integrity", momentSoon)), BadSignal},
		"training":                    {with(wentDown, noCarrier, withExtState("link_training_failure", momentSoon)), Training},
		"autonegotiation":             {with(wentDown, noCarrier, withExtState("autoneg", momentSoon)), Autoneg},
		"the transceiver":             {with(wentDown, noCarrier, withExtState("module", momentSoon)), Module},
		"heat":                        {with(wentDown, noCarrier, withExtState("overheat", momentSoon)), Overheat},
		"power":                       {with(wentDown, noCarrier, withExtState("power_budget_exceeded", momentSoon)), PowerBudget},
		"a state without its cause":   {with(wentDown, noCarrier, withExtState("calibration_failure", momentSoon)), NoCarrier},
		"a state of a newer kernel":   {with(wentDown, noCarrier, withExtState("unknown_11", momentSoon)), NoCarrier},
		"the driver has no state":     {with(wentDown, noCarrier, withExtState("", momentSoon)), NoCarrier},
		"the state before is unknown": {with(wentDown, withStates(verbs.PortNop, verbs.PortDown), isDown), AdminDown},
		"from init":                   {with(wentDown, withStates(verbs.PortInit, verbs.PortDown), noCarrier), NoCarrier},
	})
}

func TestCausesOfADevice(t *testing.T) {
	requireCauses(t, causes{
		"removed before the port went": {with(wentDown, wasRemoved(-soon)), DriverRemoved},
		"removed after the port went":  {with(wentDown, wasRemoved(soon)), DriverRemoved},
		"the port is gone":             {with(wentDown, withStates(verbs.PortActive, verbs.PortAbsent), wasRemoved(0)), DriverRemoved},
		"removed with its addresses":   {with(steady, withGIDs(6, true, momentSoon), wasRemoved(soon)), DriverRemoved},
		"removed while it was down":    {with(wentDown, withStates(verbs.PortDown, verbs.PortAbsent), wasRemoved(0)), DriverRemoved},
		"fatal":                        {with(wentDown, wasFatal(-time.Second)), DeviceFatal},
		"fatal, no state known":        {Facts{Fatal: MomentAfter(0)}, DeviceFatal},
		"stuck":                        {with(wentDown, wasStuck(-time.Second)), CommandStuck},
		"stuck on InfiniBand":          {with(steadyIB, withStates(verbs.PortActive, verbs.PortDown), wasStuck(0), isDown), CommandStuck},
		"stuck, the first reading":     {with(steady, withStates(verbs.PortNop, verbs.PortActive), wasStuck(0)), CommandStuck},
		"stuck, a lost completion":     {with(steady, wasStuck(0)), CommandStuck},
		"stuck, and answers by now":    {with(wentDown, wasStuck(0), noCarrier, setAnswered), NoCarrier},
		"addresses, while it is stuck": {with(steady, wasStuck(0), withTrigger("gid_change"), withGIDs(1, false, momentSoon)), AddressChange},
		"a P_Key, while it is stuck":   {with(steadyIB, wasStuck(0), withTrigger("pkey_change")), ""},
	})
}

func TestCausesOfAddressesAndTheSubnetManager(t *testing.T) {
	requireCauses(t, causes{
		"another MAC address":         {with(steady, withGIDs(11, true, momentSoon)), MACChange},
		"a MAC whose address stays":   {with(steady, moveDefaultGID(0)), MACChange},
		"another link-local moved":    {with(steady, moveDefaultGID(2)), ""},
		"another address":             {with(steady, withGIDs(1, false, momentSoon)), AddressChange},
		"on a port that is down":      {with(steady, withStates(verbs.PortDown, verbs.PortDown), isDown, withGIDs(11, true, momentSoon)), MACChange},
		"another subnet manager":      {with(steadyIB, withSMLIDs(1, 7, momentSoon)), SMChange},
		"no subnet manager any more":  {with(steadyIB, withSMLIDs(1, 0, momentSoon)), SMChange},
		"another prefix by it":        {with(steadyIB, withSMLIDs(1, 7, momentSoon), withGIDs(1, true, momentSoon)), SMChange},
		"a GID on InfiniBand":         {with(steadyIB, withGIDs(1, true, momentSoon)), ""},
		"the same subnet manager":     {with(steadyIB, withSMLIDs(7, 7, momentSoon)), ""},
		"a subnet manager's on RoCE":  {with(steady, withSMLIDs(1, 7, momentSoon)), ""},
		"a VLAN came":                 {with(steady, changeDefaultGID(verbs.GIDAdded, "eth0.7")), ""},
		"a VLAN took another's place": {with(steady, changeDefaultGID(verbs.GIDRemoved, "eth0.7"), changeDefaultGID(verbs.GIDAdded, "eth0.8")), ""},
		"the default GID returned":    {with(steady, changeDefaultGID(verbs.GIDRemoved, "eth0"), changeDefaultGID(verbs.GIDReturned, "eth0")), ""},
		"a diff of nothing":           {with(steady, withGIDs(0, false, momentSoon)), ""},
		"a link layer without either": {with(steady, withLinkLayer(verbs.LinkUnspecified), withGIDs(1, true, momentSoon), withSMLIDs(1, 7, momentSoon)), ""},
	})
}

func TestNoCauseWhereAFactIsMissing(t *testing.T) {
	requireCauses(t, causes{
		"everything":                       {Facts{}, ""},
		"all but the states":               {wentDown, ""},
		"flags":                            {with(wentDown, withNetDev(Unknown, No, momentSoon)), ""},
		"carrier":                          {with(wentDown, withNetDev(Yes, Unknown, momentSoon)), ""},
		"the age of the flags":             {with(wentDown, withNetDev(No, Unknown, Moment{})), ""},
		"the age of the extended state":    {with(wentDown, withExtState("no_cable", Moment{})), ""},
		"the network device, not its word": {with(wentDown, noCable), NoCable},
		"flags, not the word":              {with(wentDown, withNetDev(Unknown, No, momentSoon), noCable), NoCable},
		"carrier, not the word":            {with(wentDown, withNetDev(Yes, Unknown, momentSoon), noCable), NoCable},
		"the link layer":                   {with(wentDown, withLinkLayer(verbs.LinkUnspecified), isDown), ""},
		"the state after":                  {with(wentDown, withStates(verbs.PortActive, verbs.PortNop), isDown), ""},
		"a removal's uevent":               {with(wentDown, withStates(verbs.PortActive, verbs.PortAbsent)), ""},
		"the age of the GIDs":              {with(steady, withGIDs(1, true, Moment{})), ""},
		"the states of moved GIDs":         {with(steady, withStates(verbs.PortNop, verbs.PortNop), withGIDs(1, true, momentSoon)), ""},
		"the state before moved GIDs":      {with(steady, withStates(verbs.PortNop, verbs.PortActive), withGIDs(1, true, momentSoon)), ""},
		"the age of the subnet manager":    {with(steadyIB, withSMLIDs(1, 7, Moment{})), ""},
		"the states of a subnet manager":   {with(steadyIB, withStates(verbs.PortNop, verbs.PortNop), withSMLIDs(1, 7, momentSoon)), ""},
	})
}

func TestConflictingFacts(t *testing.T) {
	requireCauses(t, causes{
		"carrier on a port that went down":     {with(wentDown, withNetDev(Yes, Yes, momentSoon)), ""},
		"no cable, and carrier":                {with(wentDown, withNetDev(Yes, Yes, momentSoon), noCable), ""},
		"no cable, and set down":               {with(wentDown, isDown, noCable), ""},
		"an unknown state, and set down":       {with(wentDown, isDown, withExtState("unknown_11", momentSoon)), ""},
		"set down, and stuck":                  {with(wentDown, isDown, wasStuck(-soon)), ""},
		"no carrier, and stuck":                {with(wentDown, noCarrier, wasStuck(-soon)), CommandStuck},
		"set down, and fatal":                  {with(wentDown, isDown, wasFatal(-soon)), DeviceFatal},
		"set down, and removed":                {with(wentDown, isDown, wasRemoved(soon)), DriverRemoved},
		"fatal, and removed to recover":        {with(wentDown, wasFatal(-2*time.Second), wasRemoved(soon)), DeviceFatal},
		"fatal, as every removal is":           {with(wentDown, wasFatal(-soon), wasRemoved(soon)), DriverRemoved},
		"fatal, and stuck":                     {with(wentDown, wasFatal(-soon), wasStuck(-2*soon)), DeviceFatal},
		"addresses of a port that went down":   {with(wentDown, isDown, withGIDs(4, false, momentSoon)), AdminDown},
		"addresses and nothing about the link": {with(wentDown, withGIDs(11, true, momentSoon)), ""},
		"set down, and active":                 {with(steady, isDown), ""},
		"no carrier, and it was down":          {with(steady, withStates(verbs.PortDown, verbs.PortDown), noCarrier), ""},
		"no carrier, and init":                 {with(wentDown, withStates(verbs.PortActive, verbs.PortInit), noCarrier), ""},
		"IPoIB set down":                       {with(wentDown, withLinkLayer(verbs.LinkInfiniBand), isDown), ""},
		"IPoIB without carrier":                {with(wentDown, withLinkLayer(verbs.LinkInfiniBand), noCarrier, noCable), ""},
		"the port came up after a removal":     {with(steady, withStates(verbs.PortAbsent, verbs.PortActive), wasRemoved(-soon), wasFatal(-soon)), ""},
		"the port came up, stuck before":       {with(steady, withStates(verbs.PortDown, verbs.PortActive), wasStuck(-soon), withGIDs(1, true, momentSoon)), ""},
		"an SM of a port that went down":       {with(steadyIB, withStates(verbs.PortActive, verbs.PortDown), withSMLIDs(1, 0, momentSoon)), ""},
	})
}

func TestFactsGrowTooOld(t *testing.T) {
	const ns = time.Nanosecond
	flags := func(at time.Duration) Facts { return with(wentDown, withNetDev(No, Unknown, MomentAfter(at))) }
	state := func(at time.Duration) Facts { return with(wentDown, withExtState("overheat", MomentAfter(at))) }
	both := func(at time.Duration) Facts { return with(wentDown, withNetDev(Yes, Yes, MomentAfter(at)), noCable) }
	removal := func(at time.Duration) Facts { return with(wentDown, wasRemoved(at)) }
	fatal := func(at time.Duration) Facts { return with(wentDown, wasFatal(at)) }
	stuck := func(at time.Duration) Facts { return with(wentDown, wasStuck(at)) }
	diff := func(at time.Duration) Facts { return with(steady, withGIDs(1, false, MomentAfter(at))) }
	manager := func(at time.Duration) Facts { return with(steadyIB, withSMLIDs(1, 7, MomentAfter(at))) }
	requireCauses(t, causes{
		"flags at the limit":              {flags(time.Second), AdminDown},
		"flags above it":                  {flags(time.Second + ns), ""},
		"flags from before":               {flags(-ns), ""},
		"state at the limit":              {state(5 * time.Second), Overheat},
		"state above it":                  {state(5*time.Second + ns), ""},
		"state from before":               {state(-ns), ""},
		"old flags contradict nothing":    {both(2 * time.Second), NoCable},
		"new flags contradict":            {both(time.Second), ""},
		"removal 5 s before":              {removal(-5 * time.Second), DriverRemoved},
		"removal more before":             {removal(-5*time.Second - ns), ""},
		"removal 5 s after":               {removal(5 * time.Second), DriverRemoved},
		"removal more after":              {removal(5*time.Second + ns), ""},
		"fatal at the limit":              {fatal(-5 * time.Second), DeviceFatal},
		"fatal above it":                  {fatal(-5*time.Second - ns), ""},
		"fatal afterwards":                {fatal(ns), ""},
		"stuck at the limit":              {stuck(-5 * time.Second), CommandStuck},
		"stuck above it":                  {stuck(-5*time.Second - ns), ""},
		"stuck afterwards":                {stuck(ns), ""},
		"GIDs at the limit":               {diff(5 * time.Second), AddressChange},
		"GIDs above it":                   {diff(5*time.Second + ns), ""},
		"GIDs from before":                {diff(-ns), ""},
		"subnet manager at the limit":     {manager(5 * time.Second), SMChange},
		"subnet manager above it":         {manager(5*time.Second + ns), ""},
		"subnet manager from before":      {manager(-ns), ""},
		"an old removal, and a new fatal": {with(wentDown, wasRemoved(-time.Minute), wasFatal(-soon)), DeviceFatal},
	})
}

func TestFlagOf(t *testing.T) {
	require.Equal(t, []Flag{No, Yes}, []Flag{FlagOf(false), FlagOf(true)})
}
