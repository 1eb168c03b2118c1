package agent

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// probesWith returns a configuration with a list of hosts and a key, for the host gpu01.
func probesWith(t *testing.T, list, key string) *Config {
	t.Helper()
	dir := t.TempDir()
	c := DefaultConfig()
	c.Fabric.Host, c.Fabric.PeersFile, c.Fabric.KeyFile = "gpu01", filepath.Join(dir, "peers"), filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(c.Fabric.PeersFile, []byte(list), 0o600))
	require.NoError(t, os.WriteFile(c.Fabric.KeyFile, []byte(key), 0o600))
	return &c
}

const (
	aKey       = "0123456789abcdef0123456789abcdef"
	anotherKey = "another key that has 32 bytes ..."
	twoHosts   = "gpu01 rack1\ngpu02 rack1\n"
)

func TestWhoPingsWhomFollowsFromTheList(t *testing.T) {
	c := probesWith(t, "gpu01 rack1 10.0.0.1\ngpu02 rack1\ngpu03 rack2\n", aKey)
	l, err := c.Fabric.ReadPinglist()
	require.NoError(t, err)
	gpu02 := pinglist.Peer{Host: pinglist.Host{Name: "gpu02", Group: "rack1", Address: "gpu02"}, Scope: pinglist.ScopeGroup}
	gpu03 := pinglist.Peer{Host: pinglist.Host{Name: "gpu03", Group: "rack2", Address: "gpu03"}, Scope: pinglist.ScopeAcross}
	require.Equal(t, &Pinglist{
		Own: pinglist.Host{Name: "gpu01", Group: "rack1", Address: "10.0.0.1"}, Digest: "867e5adc98947c07", Hosts: 3, Groups: 2,
		Pings: []pinglist.Peer{gpu02, gpu03}, PingedBy: []pinglist.Peer{gpu02, gpu03},
	}, l)

	c.Fabric.Probe = false
	l, err = c.Fabric.ReadPinglist()
	require.NoError(t, err)
	require.Empty(t, l.Pings, "the host only answers")
	require.Len(t, l.PingedBy, 2)

	c.Fabric.Host = "gpu09"
	l, err = c.Fabric.ReadPinglist()
	require.NoError(t, err)
	require.Equal(t, pinglist.Host{Name: "gpu09"}, l.Own)

	c.Fabric.PeersFile = "/nonexistent/peers"
	_, err = c.Fabric.ReadPinglist()
	require.ErrorContains(t, err, `fabric.peers_file = "/nonexistent/peers": open`)
}

func TestACommandProbesWhereThePluginsListen(t *testing.T) {
	c := probesWith(t, twoHosts, aKey)
	c.Fabric.Listen, c.Fabric.Probe = "10.0.0.1:15000", false
	c.Fabric.ProbeOnly()
	require.Empty(t, c.Fabric.Listen)
	require.True(t, c.Fabric.Probe)
	require.Equal(t, 15000, c.Fabric.peerListenPort())
	c.Fabric.ProbeOnly()
	require.Equal(t, 15000, c.Fabric.peerListenPort(), "again")
	require.NoError(t, c.Validate())
}

func TestHostsCanBeUsedWithoutAFile(t *testing.T) {
	list, err := pinglist.ParseList(strings.NewReader(twoHosts))
	require.NoError(t, err)
	c := DefaultConfig()
	require.False(t, c.Fabric.Enabled())
	c.Fabric.UseList(list, "gpu02")
	require.True(t, c.Fabric.Enabled())
	l, err := c.Fabric.ReadPinglist()
	require.NoError(t, err)
	require.Equal(t, "rack1", l.Own.Group)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Fabric.newListFile("gpu02", nil).watch(ctx, func(*pinglist.List) { t.Error("there is no file that could change") })
	c.Fabric.Disable()
	require.False(t, c.Fabric.Enabled())
}

// answers is the Handler of a host whose list contains only gpu01.
type answers struct{ exchange.Handler }

func (answers) Listed(host string) (string, bool)      { return "00112233aabbccdd", host == "gpu01" }
func (answers) HandleConversationEnd(string, []uint64) {}

// startResponder starts a peer server with a key, and returns its address.
func startResponder(t *testing.T, name, key string) pinglist.Host {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte(key), 0o600))
	credentials, err := exchange.NewCredentials(name, exchange.Files{Key: path}, time.Now, nil)
	require.NoError(t, err)
	l, err := exchange.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	server := exchange.NewServer(exchange.ServerConfig{Host: name, Credentials: credentials, Handler: answers{}, Now: time.Now})
	go func() { served <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return pinglist.Host{Name: name, Address: l.Addr().String()}
}

func TestAGreetingSaysWhatIsWrongWithAHost(t *testing.T) {
	c := probesWith(t, twoHosts, aKey)
	greet := func(h pinglist.Host) (string, verdict.Reason, error) {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		return c.Greet(ctx, h, "ffeeddccbbaa9988")
	}
	well, other := startResponder(t, "gpu02", aKey), startResponder(t, "gpu02", anotherKey)
	theirs, why, err := greet(well)
	require.NoError(t, err)
	require.Equal(t, verdict.ReasonNone, why)
	require.Equal(t, "00112233aabbccdd", theirs)

	_, why, err = greet(other)
	require.Error(t, err)
	require.Equal(t, verdict.ReasonKey, why)

	c.Fabric.Host = "gpu03"
	_, why, err = greet(well)
	require.Error(t, err)
	require.Equal(t, verdict.ReasonNotListed, why)

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	_, why, err = greet(pinglist.Host{Name: "gpu02", Address: closed.Addr().String()})
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	require.Equal(t, verdict.ReasonNoResponder, why)

	c.Fabric.KeyFile = "/nonexistent/key"
	_, why, err = greet(well)
	require.ErrorContains(t, err, "key_file")
	require.Equal(t, verdict.ReasonKey, why)
}

func TestAPortThatIsTakenIsKnown(t *testing.T) {
	c := probesWith(t, twoHosts, aKey)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.Fabric.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	require.ErrorIs(t, c.Fabric.TryListen(t.Context()), unix.EADDRINUSE)
	require.NoError(t, l.Close())
	require.NoError(t, c.Fabric.TryListen(t.Context()))
	require.NoError(t, c.Fabric.TryListen(t.Context()), "it was taken for a moment only")
}
