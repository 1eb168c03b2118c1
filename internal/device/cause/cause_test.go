package cause

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

const soon = 20 * time.Millisecond

// The facts of this file begin with one of these.
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

func admin(up, carrier Flag, at At) func(*Facts) {
	return func(f *Facts) { f.NetDev = NetDev{at, up, carrier} }
}
func ext(name string, at At) func(*Facts) {
	return func(f *Facts) { f.ExtState = ExtState{at, name} }
}
func wasRemoved(since time.Duration) func(*Facts) {
	return func(f *Facts) { f.Removed = Seen(since) }
}
func wasFatal(since time.Duration) func(*Facts) {
	return func(f *Facts) { f.Fatal = Seen(since) }
}
func wasStuck(since time.Duration) func(*Facts) {
	return func(f *Facts) { f.Stuck = Seen(since) }
}
func gids(changed int, isDefault bool, at At) func(*Facts) {
	return func(f *Facts) {
		f.GIDs = GIDs{At: at}
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

// defaults is a change of a default GID, beside another address.
func defaults(a verbs.GIDAction, netdev string) func(*Facts) {
	return func(f *Facts) {
		f.GIDs.At = Seen(soon)
		f.GIDs.Add(a, defaultGID(1, netdev), 0)
		f.GIDs.Add(verbs.GIDAdded, verbs.GID{Raw: [16]byte{10: 0xff, 11: 0xff, 12: 10}, NetDev: netdev}, -1)
	}
}

// outlived is a change of a MAC address whose link-local address stays, with the GID that was
// the default one, at index from.
func outlived(from int) func(*Facts) {
	return func(f *Facts) {
		f.GIDs.At = Seen(soon)
		f.GIDs.Add(verbs.GIDMoved, defaultGID(1, "eth0"), from)
		f.GIDs.Add(verbs.GIDAdded, defaultGID(2, "eth0"), -1)
	}
}

func sm(from, to int, at At) func(*Facts) {
	return func(f *Facts) { f.SMLID = SMLID{at, from, to} }
}
func states(before, after verbs.PortState) func(*Facts) {
	return func(f *Facts) { f.Before, f.After = before, after }
}
func answered(f *Facts) { f.Answered = true }

func trigger(why verbs.Trigger) func(*Facts) {
	return func(f *Facts) { f.Trigger = why }
}

func layer(l verbs.LinkLayer) func(*Facts) {
	return func(f *Facts) { f.LinkLayer = l }
}

var (
	isDown    = admin(No, Unknown, Seen(soon))
	noCarrier = admin(Yes, No, Seen(soon))
	noCable   = ext("no_cable", Seen(soon))
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
		"a bad cable":                 {with(wentDown, noCarrier, ext("cable_issue", Seen(soon))), CableIssue},
		"a bad signal":                {with(wentDown, noCarrier, ext("bad_signal_integrity", Seen(soon))), BadSignal},
		"training":                    {with(wentDown, noCarrier, ext("link_training_failure", Seen(soon))), Training},
		"autonegotiation":             {with(wentDown, noCarrier, ext("autoneg", Seen(soon))), Autoneg},
		"the transceiver":             {with(wentDown, noCarrier, ext("module", Seen(soon))), Module},
		"heat":                        {with(wentDown, noCarrier, ext("overheat", Seen(soon))), Overheat},
		"power":                       {with(wentDown, noCarrier, ext("power_budget_exceeded", Seen(soon))), PowerBudget},
		"a state without its cause":   {with(wentDown, noCarrier, ext("calibration_failure", Seen(soon))), NoCarrier},
		"a state of a newer kernel":   {with(wentDown, noCarrier, ext("unknown_11", Seen(soon))), NoCarrier},
		"the driver has no state":     {with(wentDown, noCarrier, ext("", Seen(soon))), NoCarrier},
		"the state before is unknown": {with(wentDown, states(verbs.PortNop, verbs.PortDown), isDown), AdminDown},
		"from init":                   {with(wentDown, states(verbs.PortInit, verbs.PortDown), noCarrier), NoCarrier},
	})
}

func TestCausesOfADevice(t *testing.T) {
	requireCauses(t, causes{
		"removed before the port went": {with(wentDown, wasRemoved(-soon)), DriverRemoved},
		"removed after the port went":  {with(wentDown, wasRemoved(soon)), DriverRemoved},
		"the port is gone":             {with(wentDown, states(verbs.PortActive, verbs.PortAbsent), wasRemoved(0)), DriverRemoved},
		"removed with its addresses":   {with(steady, gids(6, true, Seen(soon)), wasRemoved(soon)), DriverRemoved},
		"removed while it was down":    {with(wentDown, states(verbs.PortDown, verbs.PortAbsent), wasRemoved(0)), DriverRemoved},
		"fatal":                        {with(wentDown, wasFatal(-time.Second)), DeviceFatal},
		"fatal, no state known":        {Facts{Fatal: Seen(0)}, DeviceFatal},
		"stuck":                        {with(wentDown, wasStuck(-time.Second)), CommandStuck},
		"stuck on InfiniBand":          {with(steadyIB, states(verbs.PortActive, verbs.PortDown), wasStuck(0), isDown), CommandStuck},
		"stuck, the first reading":     {with(steady, states(verbs.PortNop, verbs.PortActive), wasStuck(0)), CommandStuck},
		"stuck, a lost completion":     {with(steady, wasStuck(0)), CommandStuck},
		"stuck, and answers by now":    {with(wentDown, wasStuck(0), noCarrier, answered), NoCarrier},
		"addresses, while it is stuck": {with(steady, wasStuck(0), trigger("gid_change"), gids(1, false, Seen(soon))), AddressChange},
		"a P_Key, while it is stuck":   {with(steadyIB, wasStuck(0), trigger("pkey_change")), ""},
	})
}

func TestCausesOfAddressesAndTheSubnetManager(t *testing.T) {
	requireCauses(t, causes{
		"another MAC address":         {with(steady, gids(11, true, Seen(soon))), MACChange},
		"a MAC whose address stays":   {with(steady, outlived(0)), MACChange},
		"another link-local moved":    {with(steady, outlived(2)), ""},
		"another address":             {with(steady, gids(1, false, Seen(soon))), AddressChange},
		"on a port that is down":      {with(steady, states(verbs.PortDown, verbs.PortDown), isDown, gids(11, true, Seen(soon))), MACChange},
		"another subnet manager":      {with(steadyIB, sm(1, 7, Seen(soon))), SMChange},
		"no subnet manager any more":  {with(steadyIB, sm(1, 0, Seen(soon))), SMChange},
		"another prefix by it":        {with(steadyIB, sm(1, 7, Seen(soon)), gids(1, true, Seen(soon))), SMChange},
		"a GID on InfiniBand":         {with(steadyIB, gids(1, true, Seen(soon))), ""},
		"the same subnet manager":     {with(steadyIB, sm(7, 7, Seen(soon))), ""},
		"a subnet manager's on RoCE":  {with(steady, sm(1, 7, Seen(soon))), ""},
		"a VLAN came":                 {with(steady, defaults(verbs.GIDAdded, "eth0.7")), ""},
		"a VLAN took another's place": {with(steady, defaults(verbs.GIDRemoved, "eth0.7"), defaults(verbs.GIDAdded, "eth0.8")), ""},
		"the default GID returned":    {with(steady, defaults(verbs.GIDRemoved, "eth0"), defaults(verbs.GIDReturned, "eth0")), ""},
		"a diff of nothing":           {with(steady, gids(0, false, Seen(soon))), ""},
		"a link layer without either": {with(steady, layer(verbs.LinkUnspecified), gids(1, true, Seen(soon)), sm(1, 7, Seen(soon))), ""},
	})
}

func TestNoCauseWhereAFactIsMissing(t *testing.T) {
	requireCauses(t, causes{
		"everything":                       {Facts{}, ""},
		"all but the states":               {wentDown, ""},
		"flags":                            {with(wentDown, admin(Unknown, No, Seen(soon))), ""},
		"carrier":                          {with(wentDown, admin(Yes, Unknown, Seen(soon))), ""},
		"the age of the flags":             {with(wentDown, admin(No, Unknown, At{})), ""},
		"the age of the extended state":    {with(wentDown, ext("no_cable", At{})), ""},
		"the network device, not its word": {with(wentDown, noCable), NoCable},
		"flags, not the word":              {with(wentDown, admin(Unknown, No, Seen(soon)), noCable), NoCable},
		"carrier, not the word":            {with(wentDown, admin(Yes, Unknown, Seen(soon)), noCable), NoCable},
		"the link layer":                   {with(wentDown, layer(verbs.LinkUnspecified), isDown), ""},
		"the state after":                  {with(wentDown, states(verbs.PortActive, verbs.PortNop), isDown), ""},
		"a removal's uevent":               {with(wentDown, states(verbs.PortActive, verbs.PortAbsent)), ""},
		"the age of the GIDs":              {with(steady, gids(1, true, At{})), ""},
		"the states of moved GIDs":         {with(steady, states(verbs.PortNop, verbs.PortNop), gids(1, true, Seen(soon))), ""},
		"the state before moved GIDs":      {with(steady, states(verbs.PortNop, verbs.PortActive), gids(1, true, Seen(soon))), ""},
		"the age of the subnet manager":    {with(steadyIB, sm(1, 7, At{})), ""},
		"the states of a subnet manager":   {with(steadyIB, states(verbs.PortNop, verbs.PortNop), sm(1, 7, Seen(soon))), ""},
	})
}

func TestConflictingFacts(t *testing.T) {
	requireCauses(t, causes{
		"carrier on a port that went down":     {with(wentDown, admin(Yes, Yes, Seen(soon))), ""},
		"no cable, and carrier":                {with(wentDown, admin(Yes, Yes, Seen(soon)), noCable), ""},
		"no cable, and set down":               {with(wentDown, isDown, noCable), ""},
		"an unknown state, and set down":       {with(wentDown, isDown, ext("unknown_11", Seen(soon))), ""},
		"set down, and stuck":                  {with(wentDown, isDown, wasStuck(-soon)), ""},
		"no carrier, and stuck":                {with(wentDown, noCarrier, wasStuck(-soon)), CommandStuck},
		"set down, and fatal":                  {with(wentDown, isDown, wasFatal(-soon)), DeviceFatal},
		"set down, and removed":                {with(wentDown, isDown, wasRemoved(soon)), DriverRemoved},
		"fatal, and removed to recover":        {with(wentDown, wasFatal(-2*time.Second), wasRemoved(soon)), DeviceFatal},
		"fatal, as every removal is":           {with(wentDown, wasFatal(-soon), wasRemoved(soon)), DriverRemoved},
		"fatal, and stuck":                     {with(wentDown, wasFatal(-soon), wasStuck(-2*soon)), DeviceFatal},
		"addresses of a port that went down":   {with(wentDown, isDown, gids(4, false, Seen(soon))), AdminDown},
		"addresses and nothing about the link": {with(wentDown, gids(11, true, Seen(soon))), ""},
		"set down, and active":                 {with(steady, isDown), ""},
		"no carrier, and it was down":          {with(steady, states(verbs.PortDown, verbs.PortDown), noCarrier), ""},
		"no carrier, and init":                 {with(wentDown, states(verbs.PortActive, verbs.PortInit), noCarrier), ""},
		"IPoIB set down":                       {with(wentDown, layer(verbs.LinkInfiniBand), isDown), ""},
		"IPoIB without carrier":                {with(wentDown, layer(verbs.LinkInfiniBand), noCarrier, noCable), ""},
		"the port came up after a removal":     {with(steady, states(verbs.PortAbsent, verbs.PortActive), wasRemoved(-soon), wasFatal(-soon)), ""},
		"the port came up, stuck before":       {with(steady, states(verbs.PortDown, verbs.PortActive), wasStuck(-soon), gids(1, true, Seen(soon))), ""},
		"an SM of a port that went down":       {with(steadyIB, states(verbs.PortActive, verbs.PortDown), sm(1, 0, Seen(soon))), ""},
	})
}

func TestFactsGrowTooOld(t *testing.T) {
	const ns = time.Nanosecond
	flags := func(at time.Duration) Facts { return with(wentDown, admin(No, Unknown, Seen(at))) }
	state := func(at time.Duration) Facts { return with(wentDown, ext("overheat", Seen(at))) }
	both := func(at time.Duration) Facts { return with(wentDown, admin(Yes, Yes, Seen(at)), noCable) }
	removal := func(at time.Duration) Facts { return with(wentDown, wasRemoved(at)) }
	fatal := func(at time.Duration) Facts { return with(wentDown, wasFatal(at)) }
	stuck := func(at time.Duration) Facts { return with(wentDown, wasStuck(at)) }
	diff := func(at time.Duration) Facts { return with(steady, gids(1, false, Seen(at))) }
	manager := func(at time.Duration) Facts { return with(steadyIB, sm(1, 7, Seen(at))) }
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
