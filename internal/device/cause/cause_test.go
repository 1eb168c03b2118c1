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

func changeFacts(f Facts, changes ...func(*Facts)) Facts {
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
		"set down":                    {changeFacts(wentDown, isDown), AdminDown},
		"no carrier":                  {changeFacts(wentDown, noCarrier), NoCarrier},
		"no cable":                    {changeFacts(wentDown, noCarrier, noCable), NoCable},
		"a bad cable":                 {changeFacts(wentDown, noCarrier, withExtState("cable_issue", momentSoon)), CableIssue},
		"a bad signal":                {changeFacts(wentDown, noCarrier, withExtState("bad_signal_integrity", momentSoon)), BadSignal},
		"training":                    {changeFacts(wentDown, noCarrier, withExtState("link_training_failure", momentSoon)), Training},
		"autonegotiation":             {changeFacts(wentDown, noCarrier, withExtState("autoneg", momentSoon)), Autoneg},
		"the transceiver":             {changeFacts(wentDown, noCarrier, withExtState("module", momentSoon)), Module},
		"heat":                        {changeFacts(wentDown, noCarrier, withExtState("overheat", momentSoon)), Overheat},
		"power":                       {changeFacts(wentDown, noCarrier, withExtState("power_budget_exceeded", momentSoon)), PowerBudget},
		"a state without its cause":   {changeFacts(wentDown, noCarrier, withExtState("calibration_failure", momentSoon)), NoCarrier},
		"a state of a newer kernel":   {changeFacts(wentDown, noCarrier, withExtState("unknown_11", momentSoon)), NoCarrier},
		"the driver has no state":     {changeFacts(wentDown, noCarrier, withExtState("", momentSoon)), NoCarrier},
		"the state before is unknown": {changeFacts(wentDown, withStates(verbs.PortNop, verbs.PortDown), isDown), AdminDown},
		"from init":                   {changeFacts(wentDown, withStates(verbs.PortInit, verbs.PortDown), noCarrier), NoCarrier},
	})
}

func TestCausesOfADevice(t *testing.T) {
	requireCauses(t, causes{
		"removed before the port went": {changeFacts(wentDown, wasRemoved(-soon)), DriverRemoved},
		"removed after the port went":  {changeFacts(wentDown, wasRemoved(soon)), DriverRemoved},
		"the port is gone":             {changeFacts(wentDown, withStates(verbs.PortActive, verbs.PortAbsent), wasRemoved(0)), DriverRemoved},
		"removed with its addresses":   {changeFacts(steady, withGIDs(6, true, momentSoon), wasRemoved(soon)), DriverRemoved},
		"removed while it was down":    {changeFacts(wentDown, withStates(verbs.PortDown, verbs.PortAbsent), wasRemoved(0)), DriverRemoved},
		"fatal":                        {changeFacts(wentDown, wasFatal(-time.Second)), DeviceFatal},
		"fatal, no state known":        {Facts{Fatal: MomentAfter(0)}, DeviceFatal},
		"stuck":                        {changeFacts(wentDown, wasStuck(-time.Second)), CommandStuck},
		"stuck on InfiniBand":          {changeFacts(steadyIB, withStates(verbs.PortActive, verbs.PortDown), wasStuck(0), isDown), CommandStuck},
		"stuck, the first reading":     {changeFacts(steady, withStates(verbs.PortNop, verbs.PortActive), wasStuck(0)), CommandStuck},
		"stuck, a lost completion":     {changeFacts(steady, wasStuck(0)), CommandStuck},
		"stuck, and answers by now":    {changeFacts(wentDown, wasStuck(0), noCarrier, setAnswered), NoCarrier},
		"addresses, while it is stuck": {changeFacts(steady, wasStuck(0), withTrigger("gid_change"), withGIDs(1, false, momentSoon)), AddressChange},
		"a P_Key, while it is stuck":   {changeFacts(steadyIB, wasStuck(0), withTrigger("pkey_change")), ""},
	})
}

func TestCausesOfAddressesAndTheSubnetManager(t *testing.T) {
	requireCauses(t, causes{
		"another MAC address":         {changeFacts(steady, withGIDs(11, true, momentSoon)), MACChange},
		"a MAC whose address stays":   {changeFacts(steady, moveDefaultGID(0)), MACChange},
		"another link-local moved":    {changeFacts(steady, moveDefaultGID(2)), ""},
		"another address":             {changeFacts(steady, withGIDs(1, false, momentSoon)), AddressChange},
		"after a lost event":          {changeFacts(steady, withTrigger("lost_event"), withGIDs(1, false, momentSoon)), ""},
		"after a lost completion":     {changeFacts(steady, withTrigger("lost_completion"), withGIDs(11, true, momentSoon)), ""},
		"after a stuck command":       {changeFacts(steadyIB, withTrigger("command"), withSMLIDs(1, 7, momentSoon)), ""},
		"after a port_err":            {changeFacts(steady, withTrigger("port_err"), withGIDs(1, false, momentSoon)), ""},
		"a port_err on InfiniBand":    {changeFacts(steadyIB, withTrigger("port_err"), withSMLIDs(1, 7, momentSoon)), ""},
		"on a port that is down":      {changeFacts(steady, withStates(verbs.PortDown, verbs.PortDown), isDown, withGIDs(11, true, momentSoon)), MACChange},
		"another subnet manager":      {changeFacts(steadyIB, withSMLIDs(1, 7, momentSoon)), SMChange},
		"no subnet manager any more":  {changeFacts(steadyIB, withSMLIDs(1, 0, momentSoon)), SMChange},
		"another prefix by it":        {changeFacts(steadyIB, withSMLIDs(1, 7, momentSoon), withGIDs(1, true, momentSoon)), SMChange},
		"a GID on InfiniBand":         {changeFacts(steadyIB, withGIDs(1, true, momentSoon)), ""},
		"the same subnet manager":     {changeFacts(steadyIB, withSMLIDs(7, 7, momentSoon)), ""},
		"a subnet manager's on RoCE":  {changeFacts(steady, withSMLIDs(1, 7, momentSoon)), ""},
		"a VLAN came":                 {changeFacts(steady, changeDefaultGID(verbs.GIDAdded, "eth0.7")), ""},
		"a VLAN took another's place": {changeFacts(steady, changeDefaultGID(verbs.GIDRemoved, "eth0.7"), changeDefaultGID(verbs.GIDAdded, "eth0.8")), ""},
		"the default GID returned":    {changeFacts(steady, changeDefaultGID(verbs.GIDRemoved, "eth0"), changeDefaultGID(verbs.GIDReturned, "eth0")), ""},
		"a diff of nothing":           {changeFacts(steady, withGIDs(0, false, momentSoon)), ""},
		"a link layer without either": {changeFacts(steady, withLinkLayer(verbs.LinkUnspecified), withGIDs(1, true, momentSoon), withSMLIDs(1, 7, momentSoon)), ""},
	})
}

func TestNoCauseWhereAFactIsMissing(t *testing.T) {
	requireCauses(t, causes{
		"everything":                       {Facts{}, ""},
		"all but the states":               {wentDown, ""},
		"flags":                            {changeFacts(wentDown, withNetDev(Unknown, No, momentSoon)), ""},
		"carrier":                          {changeFacts(wentDown, withNetDev(Yes, Unknown, momentSoon)), ""},
		"the age of the flags":             {changeFacts(wentDown, withNetDev(No, Unknown, Moment{})), ""},
		"the age of the extended state":    {changeFacts(wentDown, withExtState("no_cable", Moment{})), ""},
		"the network device, not its word": {changeFacts(wentDown, noCable), NoCable},
		"flags, not the word":              {changeFacts(wentDown, withNetDev(Unknown, No, momentSoon), noCable), NoCable},
		"carrier, not the word":            {changeFacts(wentDown, withNetDev(Yes, Unknown, momentSoon), noCable), NoCable},
		"the link layer":                   {changeFacts(wentDown, withLinkLayer(verbs.LinkUnspecified), isDown), ""},
		"the state after":                  {changeFacts(wentDown, withStates(verbs.PortActive, verbs.PortNop), isDown), ""},
		"a removal's uevent":               {changeFacts(wentDown, withStates(verbs.PortActive, verbs.PortAbsent)), ""},
		"the age of the GIDs":              {changeFacts(steady, withGIDs(1, true, Moment{})), ""},
		"the states of moved GIDs":         {changeFacts(steady, withStates(verbs.PortNop, verbs.PortNop), withGIDs(1, true, momentSoon)), ""},
		"the state before moved GIDs":      {changeFacts(steady, withStates(verbs.PortNop, verbs.PortActive), withGIDs(1, true, momentSoon)), ""},
		"the age of the subnet manager":    {changeFacts(steadyIB, withSMLIDs(1, 7, Moment{})), ""},
		"the states of a subnet manager":   {changeFacts(steadyIB, withStates(verbs.PortNop, verbs.PortNop), withSMLIDs(1, 7, momentSoon)), ""},
	})
}

func TestConflictingFacts(t *testing.T) {
	requireCauses(t, causes{
		"carrier on a port that went down":     {changeFacts(wentDown, withNetDev(Yes, Yes, momentSoon)), ""},
		"no cable, and carrier":                {changeFacts(wentDown, withNetDev(Yes, Yes, momentSoon), noCable), ""},
		"no cable, and set down":               {changeFacts(wentDown, isDown, noCable), ""},
		"an unknown state, and set down":       {changeFacts(wentDown, isDown, withExtState("unknown_11", momentSoon)), ""},
		"set down, and stuck":                  {changeFacts(wentDown, isDown, wasStuck(-soon)), ""},
		"no carrier, and stuck":                {changeFacts(wentDown, noCarrier, wasStuck(-soon)), CommandStuck},
		"set down, and fatal":                  {changeFacts(wentDown, isDown, wasFatal(-soon)), DeviceFatal},
		"set down, and removed":                {changeFacts(wentDown, isDown, wasRemoved(soon)), DriverRemoved},
		"fatal, and removed to recover":        {changeFacts(wentDown, wasFatal(-2*time.Second), wasRemoved(soon)), DeviceFatal},
		"fatal, as every removal is":           {changeFacts(wentDown, wasFatal(-soon), wasRemoved(soon)), DriverRemoved},
		"fatal, and stuck":                     {changeFacts(wentDown, wasFatal(-soon), wasStuck(-2*soon)), DeviceFatal},
		"addresses of a port that went down":   {changeFacts(wentDown, isDown, withGIDs(4, false, momentSoon)), AdminDown},
		"addresses and nothing about the link": {changeFacts(wentDown, withGIDs(11, true, momentSoon)), ""},
		"set down, and active":                 {changeFacts(steady, isDown), ""},
		"no carrier, and it was down":          {changeFacts(steady, withStates(verbs.PortDown, verbs.PortDown), noCarrier), ""},
		"no carrier, and init":                 {changeFacts(wentDown, withStates(verbs.PortActive, verbs.PortInit), noCarrier), ""},
		"IPoIB set down":                       {changeFacts(wentDown, withLinkLayer(verbs.LinkInfiniBand), isDown), ""},
		"IPoIB without carrier":                {changeFacts(wentDown, withLinkLayer(verbs.LinkInfiniBand), noCarrier, noCable), ""},
		"the port came up after a removal":     {changeFacts(steady, withStates(verbs.PortAbsent, verbs.PortActive), wasRemoved(-soon), wasFatal(-soon)), ""},
		"the port came up, stuck before": {changeFacts(steady, withStates(verbs.PortDown, verbs.PortActive), wasStuck(-soon),
			withGIDs(1, true, momentSoon)), ""},
		"an SM of a port that went down": {changeFacts(steadyIB, withStates(verbs.PortActive, verbs.PortDown), withSMLIDs(1, 0, momentSoon)), ""},
	})
}

func TestFactsGrowTooOld(t *testing.T) {
	const ns = time.Nanosecond
	flags := func(at time.Duration) Facts { return changeFacts(wentDown, withNetDev(No, Unknown, MomentAfter(at))) }
	state := func(at time.Duration) Facts { return changeFacts(wentDown, withExtState("overheat", MomentAfter(at))) }
	both := func(at time.Duration) Facts {
		return changeFacts(wentDown, withNetDev(Yes, Yes, MomentAfter(at)), noCable)
	}
	removal := func(at time.Duration) Facts { return changeFacts(wentDown, wasRemoved(at)) }
	fatal := func(at time.Duration) Facts { return changeFacts(wentDown, wasFatal(at)) }
	stuck := func(at time.Duration) Facts { return changeFacts(wentDown, wasStuck(at)) }
	diff := func(at time.Duration) Facts { return changeFacts(steady, withGIDs(1, false, MomentAfter(at))) }
	manager := func(at time.Duration) Facts { return changeFacts(steadyIB, withSMLIDs(1, 7, MomentAfter(at))) }
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
		"an old removal, and a new fatal": {changeFacts(wentDown, wasRemoved(-time.Minute), wasFatal(-soon)), DeviceFatal},
	})
}

func TestFlagOf(t *testing.T) {
	require.Equal(t, []Flag{No, Yes}, []Flag{FlagOf(false), FlagOf(true)})
}
