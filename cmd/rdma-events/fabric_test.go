package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/schema"
)

// fabricConfig writes a configuration with a list of hosts, and returns its path.
func fabricConfig(t *testing.T, list, options string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return configFile(t, "[[inputs.rdma_events]]\nworker_path = \""+exe+"\"\nbackend = \"sim\"\nfabric.peers_file = \""+configFile(t, list)+"\"\n"+options)
}

const threeHosts = "gpu01 rack1 10.0.0.1\ngpu02 rack1\ngpu03 rack2 10.0.0.3\n"

func TestWatchProbesNoHostUnlessItIsAsked(t *testing.T) {
	path := fabricConfig(t, threeHosts, "fabric.listen = \"127.0.0.1:15000\"\n")
	c, err := (&watchFlags{config: path}).settings()
	require.NoError(t, err)
	require.False(t, c.Fabric.Enabled())
	c, err = (&watchFlags{config: path, fabric: true}).settings()
	require.NoError(t, err)
	require.True(t, c.Fabric.Enabled())
	require.Empty(t, c.Fabric.Listen, "the plugin has the port")
}

func TestTheFabricIsProbedAndNothingElse(t *testing.T) {
	path := fabricConfig(t, threeHosts, "fabric.probe = false\napplications.objects = true\n")
	c, err := (&fabricFlags{config: path}).settings()
	require.NoError(t, err)
	require.True(t, c.Fabric.Probe)
	require.Empty(t, c.Fabric.Listen)
	require.Zero(t, c.Probe.Interval)
	require.False(t, c.Applications.Objects)
	require.Equal(t, agent.EvidenceConfig{CommandStuck: c.Evidence.CommandStuck, Ethtool: c.Evidence.Ethtool}, c.Evidence)
}

func TestTheDemonstrationOfTheFabricHasItsHosts(t *testing.T) {
	c, err := (&watchFlags{demo: true, fabric: true}).settings()
	if err != nil { // the worker program is not beside a test
		require.ErrorContains(t, err, "worker_path")
	}
	require.True(t, c.Simulated())
	require.Equal(t, "fabric", c.Sim.Scenario)
	l, err := c.Fabric.ReadPinglist()
	require.NoError(t, err)
	require.Equal(t, "rack1", l.Own.Group)
	require.Equal(t, 16, l.Hosts)
	require.NotEmpty(t, l.Pings)
}

func TestAHostWithNoOtherIsNotProbed(t *testing.T) {
	for want, list := range map[string]string{
		`has no host "gpu01": add it, or set fabric.host`: "gpu02 rack1\n",
		"lists no host but this one":                      "gpu01 rack1\n",
	} {
		c, err := loadConfig(fabricConfig(t, list, "fabric.host = \"gpu01\"\n"))
		require.NoError(t, err)
		require.ErrorContains(t, requirePings(&c.Fabric), want)
	}
	_, err := (&fabricFlags{config: configFile(t, "[[inputs.rdma_events]]\n")}).settings()
	require.ErrorIs(t, err, errNoHosts)
	require.ErrorContains(t, err, "rdma_events.conf: ")
}

// fabricListing returns the output of fabric -list.
func fabricListing(t *testing.T, o *fabricFlags, code int) string {
	t.Helper()
	o.list = true
	c, err := o.settings()
	require.NoError(t, err)
	var b bytes.Buffer
	got, err := o.writeList(&b, &c.Fabric)
	require.NoError(t, err)
	require.Equal(t, code, got)
	return b.String()
}

func TestTheListSaysWhoPingsWhom(t *testing.T) {
	list := configFile(t, threeHosts)
	const want = `list 867e5adc98947c07: 3 hosts in 2 groups
gpu01 in rack1 pings 2 and is pinged by 2
pings      gpu02                 rack1             group   gpu02
pings      gpu03                 rack2             across  10.0.0.3
pinged by  gpu02                 rack1             group   gpu02
pinged by  gpu03                 rack2             across  10.0.0.3
`
	require.Equal(t, want, fabricListing(t, &fabricFlags{peersFile: list, host: "gpu01"}, exitOK))
	require.Equal(t, want, fabricListing(t, &fabricFlags{config: fabricConfig(t, threeHosts, "fabric.host = \"gpu01\"\n")}, exitOK))
	require.Equal(t, "list 867e5adc98947c07: 3 hosts in 2 groups\ngpu09 is not in it: it pings none, and is pinged by none\n",
		fabricListing(t, &fabricFlags{peersFile: list, host: "gpu09"}, exitWarning))
}

func TestTheListIsAnObjectAsItsSchemaSays(t *testing.T) {
	list := configFile(t, threeHosts)
	for _, host := range []string{"gpu01", "gpu09"} {
		code := map[string]int{"gpu01": exitOK, "gpu09": exitWarning}[host]
		schema.Require(t, "fabric_list", fabricListing(t, &fabricFlags{peersFile: list, host: host, json: true}, code))
	}
	require.Contains(t, fabricListing(t, &fabricFlags{peersFile: list, host: "gpu01", json: true}, exitOK), `"scope": "across"`)
}

func TestTheExitStatusIsThatOfTheWorstPair(t *testing.T) {
	pair := func(ofPair, ofPort verdict.Verdict) timeline.Record {
		return timeline.NewPair(&measure.FabricPeer{Verdict: ofPair}, aggregate.Percentiles{}, aggregate.Percentiles{}, ofPort)
	}
	for _, tt := range []struct {
		code  int
		pairs []timeline.Record
	}{
		{exitUnknown, nil},
		{exitOK, []timeline.Record{pair("ok", "ok"), pair("ok", "ok")}},
		{exitWarning, []timeline.Record{pair("ok", "ok"), pair("peer_busy", "ok")}},
		{exitWarning, []timeline.Record{pair("", "ok"), pair("ok", "ok")}},
		{exitFailed, []timeline.Record{pair("own_link", "own_link"), pair("path", "ok")}},
		{exitFailed, []timeline.Record{pair("", "own_port")}},
	} {
		require.Equal(t, tt.code, pairsExitStatus(tt.pairs))
	}
}

func TestOnlyDevicesThatCannotBeWatchedAreShownBesideTheTable(t *testing.T) {
	var got []measure.Point
	emit := onlyClosedDevices(func(p measure.Point) { got = append(got, p) })
	closed := &measure.Device{Device: "a", At: time.Now()}
	for _, p := range []measure.Point{&measure.Device{Device: "b", Open: true}, &measure.FabricPeer{}, closed} {
		emit(p)
	}
	require.Equal(t, []measure.Point{closed}, got)
}

func TestHelpOfFabricSaysItsExitStatus(t *testing.T) {
	require.True(t, strings.Contains(runPrint(t, "help", "fabric"), "70: no pair was seen."))
}
