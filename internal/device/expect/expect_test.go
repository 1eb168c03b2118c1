package expect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestDecisionFollowsTheFirstReason(t *testing.T) {
	for _, tt := range []struct {
		facts Facts
		up    bool
		why   Reason
	}{
		{Facts{}, false, ReasonNeverActive},
		{Facts{LinkWaits: true}, true, ReasonLinkWaits},
		{Facts{Remembered: true}, true, ReasonRemembered},
		{Facts{Remembered: true, LinkWaits: true}, true, ReasonRemembered},
		{Facts{Remembered: true, Returned: true}, false, ReasonReturned},
		{Facts{Returned: true}, false, ReasonNeverActive},
		{Facts{Returned: true, LinkWaits: true}, true, ReasonLinkWaits},
		{Facts{Configured: true, Remembered: true, Returned: true}, true, ReasonConfigured},
		{Facts{Configured: true, Remembered: true, LinkWaits: true}, true, ReasonConfigured},
		{Facts{Representor: true, Configured: true, Remembered: true, LinkWaits: true}, false, ReasonRepresentor},
		{Facts{ExpectedDown: true, Representor: true}, false, ReasonExpectedDown},
		{Facts{ExpectedDown: true, Configured: true, Remembered: true, LinkWaits: true}, false, ReasonExpectedDown},
	} {
		up, why := tt.facts.Up()
		require.Equal(t, tt.up, up, tt.facts)
		require.Equal(t, tt.why, why, tt.facts)
	}
}

func TestConfiguredRateCountsBeforeTheBest(t *testing.T) {
	require.Equal(t, 0.0, Rates{}.Gbps())
	require.Equal(t, 400.0, Rates{Best: 400}.Gbps())
	require.Equal(t, 400.0, Rates{Best: 200, Compared: 400}.Gbps(), "as most others")
	require.Equal(t, 200.0, Rates{Configured: 200, Best: 400, Compared: 400}.Gbps(), "a lower rate by intention")
}

func TestLinkIsActiveOrWaitsLongEnough(t *testing.T) {
	const (
		sec   = int64(time.Second)
		up    = verbs.PhysLinkUp
		polls = verbs.PhysState(2)
	)
	type step struct {
		at    int64
		state verbs.PortState
		phys  verbs.PhysState
		long  bool // Observe returns
		waits bool
	}
	for name, steps := range map[string][]step{
		"active for a minute": {
			{5, verbs.PortActive, up, false, false}, {64, verbs.PortActive, up, false, false}, {65, verbs.PortActive, up, true, false},
		},
		"active for a minute, and down before the next look": {
			{5, verbs.PortActive, up, false, false}, {65, verbs.PortDown, polls, true, false}, {66, verbs.PortDown, polls, false, false},
		},
		"active for two times half a minute": {
			{5, verbs.PortActive, up, false, false}, {40, verbs.PortDown, polls, false, false}, {41, verbs.PortActive, up, false, false},
			{80, verbs.PortActive, up, false, false},
		},
		"waits for a subnet manager": {
			{0, verbs.PortInit, up, false, false}, {119, verbs.PortArmed, up, false, false}, {120, verbs.PortArmed, up, false, true},
			{121, verbs.PortActive, up, false, false},
		},
		"init without a link": {
			{0, verbs.PortInit, polls, false, false}, {300, verbs.PortInit, polls, false, false},
		},
		"the link trains again": {
			{0, verbs.PortInit, up, false, false}, {90, verbs.PortDown, polls, false, false}, {95, verbs.PortInit, up, false, false},
			{200, verbs.PortInit, up, false, false}, {215, verbs.PortInit, up, false, true},
		},
		"down with a link": {
			{0, verbs.PortDown, up, false, false}, {300, verbs.PortDown, up, false, false},
		},
		"the physical state is unknown": {
			{0, verbs.PortInit, 0, false, false}, {300, verbs.PortInit, 0, false, false},
		},
		"absent": {
			{0, verbs.PortActive, up, false, false}, {59, verbs.PortAbsent, up, false, false}, {300, verbs.PortActive, up, false, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l Link
			for _, s := range steps {
				require.Equal(t, s.long, l.Observe(s.state, s.phys, s.at*sec), "at %d", s.at)
				require.Equal(t, s.waits, l.Waits(s.at*sec), "at %d", s.at)
			}
		})
	}
}

func TestRestartedLinkIsActiveAMinuteLater(t *testing.T) {
	var l Link
	minute := int64(time.Minute)
	l.Observe(verbs.PortActive, verbs.PhysLinkUp, 0)
	l.Restart()
	require.False(t, l.Observe(verbs.PortActive, verbs.PhysLinkUp, minute))
	require.True(t, l.Observe(verbs.PortActive, verbs.PhysLinkUp, 2*minute))
}
