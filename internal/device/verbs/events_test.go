package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryEventTypeHasANameAndAScope(t *testing.T) {
	seen := map[string]bool{}
	for e := EventType(0); e < eventTypes; e++ {
		require.NotEqual(t, ScopeUnknown, e.Scope(), "type %d", e)
		require.False(t, seen[e.String()], "name of type %d stands twice", e)
		seen[e.String()] = true
		back, ok := ParseEventType(e.String())
		require.True(t, ok)
		require.Equal(t, e, back)
	}
	require.Len(t, seen, 21)
	require.Equal(t, "port_err", EventType(10).String())
	require.Equal(t, "device_speed_change", EventType(20).String())
}

func TestANumberWithoutANameKeepsIt(t *testing.T) {
	e := EventType(21)
	require.Equal(t, "unknown_21", e.String())
	require.Equal(t, ScopeUnknown, e.Scope())
	back, ok := ParseEventType("unknown_21")
	require.True(t, ok)
	require.Equal(t, e, back)
	_, ok = ParseEventType("port_eror")
	require.False(t, ok)
	require.Equal(t, "unknown_-1", EventType(-1).String())
}

func TestPortEventsAreThoseWhoseElementIsAPortNumber(t *testing.T) {
	var names []string
	for _, e := range EventTypes(ScopePort) {
		names = append(names, e.String())
	}
	require.Equal(t, []string{"port_active", "port_err", "lid_change", "pkey_change", "sm_change",
		"client_reregister", "gid_change"}, names)
}
