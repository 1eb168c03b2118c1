package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

const (
	peersFile = "etc/rdma-events/peers"
	keyFile   = "etc/rdma-events/fabric.key"
	tlsCert   = "etc/rdma-events/host.pem"
	tlsKey    = "etc/rdma-events/host.key"
	tlsCA     = "etc/rdma-events/ca.pem"
	configTOS = "sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
	ipv4GID   = "0000:0000:0000:0000:0000:ffff:0a04:0001"

	digest = "53b7224115391855" // digest of fiveHosts
)

const fiveHosts = "gpu01 rack1\ngpu02 rack1\ngpu03 rack1\ngpu04 rack2\ngpu05 rack3 10.0.0.5\n"

// fakeNetwork simulates other hosts. It contains their answers by name.
type fakeNetwork struct {
	answers map[string]greeting
	listens error

	mu    sync.Mutex
	asked []pinglist.Host
}

func (n *fakeNetwork) greet(ctx context.Context, h pinglist.Host, digest string) (theirs string, why verdict.Reason, err error) {
	n.mu.Lock()
	n.asked = append(n.asked, h)
	n.mu.Unlock()
	a, ok := n.answers[h.Name]
	switch {
	case !ok:
		return digest, verdict.ReasonNone, nil
	case a.why == "hangs":
		<-ctx.Done()
		return "", verdict.ReasonNoResponder, ctx.Err()
	}
	return a.theirDigest, a.why, a.err
}

// probingFixture returns a healthy host that probes others, and its fabric configuration.
func probingFixture() (tree, *FabricConfig, *fakeNetwork) {
	n := &fakeNetwork{answers: map[string]greeting{}}
	files := healthyTree().with(tree{
		peersFile:                    fiveHosts,
		keyFile:                      strings.Repeat("k", minKeyLength),
		port1 + "/gids/1":            ipv4GID + "\n",
		port1 + "/gid_attrs/types/1": "RoCE v2\n",
		port1 + "/gid_attrs/ndevs/1": "eth0\n",
	})
	c := &FabricConfig{
		Host: "gpu01", PeersFile: "/" + peersFile, KeyFile: "/" + keyFile, Probe: true, Peers: 8, Listen: ":14791", GIDIndex: -1,
		IncludesDevice: func(string) bool { return true }, Greet: n.greet, TryListen: func(context.Context) error { return n.listens },
	}
	return files, c, n
}

// probingHost returns the System of a host that probes others. Files with secrets have their proper mode.
func probingHost(t *testing.T, files tree, c *FabricConfig) (s *System, root string) {
	t.Helper()
	root = files.write(t)
	for _, secret := range []string{keyFile, tlsKey} {
		if _, ok := files[secret]; ok {
			require.NoError(t, os.Chmod(filepath.Join(root, secret), maxSecretMode))
		}
	}
	s = hostAt(root, workingWorker())
	s.Config = "/etc/telegraf/telegraf.d/rdma_events.conf"
	s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{Fabric: c}, nil }
	s.Now = func() time.Time { return time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC) }
	return s, root
}

// fabricResults returns the results about probes between hosts.
func (r *Report) fabricResults() (found []Result) {
	for _, one := range r.Results {
		if strings.HasPrefix(one.Check, "fabric_") {
			found = append(found, one)
		}
	}
	return found
}

func TestAHealthyHostThatProbesOthersIsOKThroughout(t *testing.T) {
	files, c, n := probingFixture()
	s, _ := probingHost(t, files.with(tree{configTOS: "0\n"}), c)
	r := Run(t.Context(), s)
	require.Equal(t, OK, r.Status, "%+v", r.Results)
	require.Equal(t, []Result{
		{Check: "fabric_list", Subject: "/" + peersFile, Text: "5 hosts in 3 groups, list " + digest + "; gpu01 of rack1 pings 4 of them"},
		{Check: "fabric_key", Subject: "/" + keyFile, Text: "32 bytes, mode 0640"},
		{Check: "fabric_ports", Text: "1 of 1 ports are active: mlx5_0:1"},
		{Check: "fabric_addresses", Subject: "mlx5_0 port 1", Text: "RoCE v2: IPv4 at index 1 (10.4.0.1)"},
		{Check: "fabric_class", Subject: "mlx5_0 port 1", Text: "fabric.traffic_class = 0, and rdma_cm's default_roce_tos is the same"},
		{Check: "fabric_listen", Subject: ":14791", Text: "the port is free"},
		{Check: "fabric_peers", Subject: "gpu02", Text: "it answers, and has the same list"},
		{Check: "fabric_peers", Subject: "gpu04", Text: "it answers, and has the same list"},
	}, r.fabricResults())
	require.ElementsMatch(t, []pinglist.Host{{Name: "gpu02", Group: "rack1", Address: "gpu02"}, {Name: "gpu04", Group: "rack2", Address: "gpu04"}}, n.asked)
	require.NotContains(t, textOf(t, &r), "kkkk", "nothing of the key is shown")
}

func textOf(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.WriteText(&b, nil))
	return b.String()
}

func TestWhereHostsAreNotProbedNothingIsSaidOfThem(t *testing.T) {
	files, c, n := probingFixture()
	s, _ := probingHost(t, files, c)
	s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{}, nil }
	r := Run(t.Context(), s)
	require.Empty(t, r.fabricResults())
	s.Plugin = func(string) (PluginConfig, error) { return PluginConfig{Fabric: c, Simulated: true}, nil }
	r = Run(t.Context(), s)
	require.Empty(t, r.fabricResults())
	require.Empty(t, n.asked)
}

// Each row breaks one thing on a host that probes others, and one check must report it.
func TestAProblemOfTheFabricIsReportedWithItsFix(t *testing.T) {
	const doctorThere = "ssh gpu02 sudo -u telegraf rdma-events doctor -config /etc/telegraf/"
	answer := func(g greeting) func(*FabricConfig, *fakeNetwork, string) {
		return func(_ *FabricConfig, n *fakeNetwork, _ string) { n.answers["gpu02"] = g }
	}
	taken := func(why verdict.Reason) func(*FabricConfig, *fakeNetwork, string) {
		return func(_ *FabricConfig, n *fakeNetwork, _ string) {
			n.listens = &os.SyscallError{Syscall: "bind", Err: unix.EADDRINUSE}
			n.answers["gpu01"] = greeting{why: why}
		}
	}
	for _, tt := range []struct {
		name   string
		files  tree
		change func(c *FabricConfig, n *fakeNetwork, root string)
		want   finding // Text and Fix are parts of the reported ones
	}{
		{
			"no list", tree{peersFile: ""}, nil,
			finding{"fabric_list", "/" + peersFile, Fail, "no such file", "sudoedit /" + peersFile},
		},
		{
			"a list that is none", tree{peersFile: "gpu01\n"}, nil,
			finding{"fabric_list", "/" + peersFile, Fail, `line 1: "gpu01" is not a host`, "sudoedit /" + peersFile},
		},
		{
			"a list without hosts", tree{peersFile: "# host group\n"}, nil,
			finding{"fabric_list", "/" + peersFile, Fail, "it has no hosts", "sudoedit /" + peersFile},
		},
		{
			"a list without this host", nil, func(c *FabricConfig, _ *fakeNetwork, _ string) { c.Host = "gpu09" },
			finding{"fabric_list", "/" + peersFile, Fail, `no host "gpu09"`, "sudoedit /" + peersFile},
		},
		{
			"a list of one", tree{peersFile: "gpu01 rack1\n"}, nil,
			finding{"fabric_list", "/" + peersFile, Warn, "no host but this one", "sudoedit /" + peersFile},
		},
		{
			"no key", tree{keyFile: ""}, nil,
			finding{"fabric_key", "/" + keyFile, Fail, "no such file", "sudoedit"},
		},
		{
			"a short key", tree{keyFile: "secret"}, nil,
			finding{"fabric_key", "/" + keyFile, Fail, "6 bytes: want 32 random ones", "head -c 32 /dev/urandom"},
		},
		{
			"a key that all may read", nil, func(_ *FabricConfig, _ *fakeNetwork, root string) {
				require.NoError(t, os.Chmod(filepath.Join(root, keyFile), 0o644))
			},
			finding{"fabric_key", "/" + keyFile, Fail, "mode 0644: others may read it", "chgrp telegraf /" + keyFile + " && chmod 0640"},
		},
		{
			"a directory for a key", nil, func(c *FabricConfig, _ *fakeNetwork, _ string) { c.KeyFile = "/etc" },
			finding{"fabric_key", "/etc", Fail, "it is no regular file", "sudoedit"},
		},
		{
			"no active port", tree{port1 + "/state": "1: DOWN\n"}, nil,
			finding{"fabric_ports", "", Warn, "none of 1 ports is active", "rdma link"},
		},
		{
			"no device that is wanted", nil, func(c *FabricConfig, _ *fakeNetwork, _ string) { c.IncludesDevice = func(string) bool { return false } },
			finding{"fabric_ports", "", Warn, "fabric.devices matches none", "sudoedit"},
		},
		{
			"iWARP alone", tree{class + "/node_type": "4: RNIC\n"}, nil,
			finding{"fabric_ports", "", Warn, "all devices use iWARP", "sudoedit"},
		},
		{
			"only a link-local address", tree{port1 + "/gids/1": ""}, nil,
			finding{"fabric_addresses", "mlx5_0 port 1", Warn, "link-local", "ip address show dev eth0"},
		},
		{
			"only RoCE v1", tree{port1 + "/gid_attrs/types/0": "IB/RoCE v1\n", port1 + "/gid_attrs/types/1": "IB/RoCE v1\n"}, nil,
			finding{"fabric_addresses", "mlx5_0 port 1", Fail, "no GID of RoCE v2", "ip address show"},
		},
		{
			"an index without a GID", nil, func(c *FabricConfig, _ *fakeNetwork, _ string) { c.GIDIndex = 7 },
			finding{"fabric_addresses", "mlx5_0 port 1", Fail, "the GID at index 7 (probe.gid_index)", "sudoedit"},
		},
		{
			"another traffic class", tree{configTOS: "106\n"}, nil,
			finding{"fabric_class", "mlx5_0 port 1", Warn, "fabric.traffic_class = 0, and rdma_cm's default_roce_tos is 106", "sudoedit"},
		},
		{
			"an address of another host", nil, func(_ *FabricConfig, n *fakeNetwork, _ string) { n.listens = unix.EADDRNOTAVAIL },
			finding{"fabric_listen", ":14791", Fail, "cannot assign requested address", "sudoedit"},
		},
		{
			"another program", nil, taken(verdict.ReasonNoResponder),
			finding{"fabric_listen", ":14791", Fail, "another program has the port", "ss -ltnp sport = :14791"},
		},
		{
			"a plugin with another key", nil, taken(verdict.ReasonKey),
			finding{"fabric_listen", ":14791", Warn, "a program with another key has the port", "ss -ltnp"},
		},
		{
			"a host without the plugin", nil, answer(greeting{why: verdict.ReasonNoResponder, err: errors.New("dial tcp: connection refused")}),
			finding{"fabric_peers", "gpu02", Warn, "no plugin answers at the peer's address (dial tcp: connection refused); run the plugin on the peer", doctorThere},
		},
		{
			"a host with another key", nil, answer(greeting{why: verdict.ReasonKey, err: errors.New("alert 48")}),
			finding{"fabric_peers", "gpu02", Warn, "the peer has another key, its certificate has expired or", doctorThere},
		},
		{
			"a host with another list", nil, answer(greeting{theirDigest: "00112233aabbccdd"}),
			finding{"fabric_peers", "gpu02", Warn, "it answers, but has another list: 00112233aabbccdd instead of " + digest, doctorThere},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files, c, n := probingFixture()
			s, root := probingHost(t, files.with(tt.files), c)
			if tt.change != nil {
				tt.change(c, n, root)
			}
			r := Run(t.Context(), s)
			var bad []Result
			for _, one := range r.resultsOf(tt.want.Check) {
				if one.Status > OK {
					bad = append(bad, one)
				}
			}
			require.Len(t, bad, 1, "%+v", r.Results)
			require.Equal(t, tt.want.Status, bad[0].Status)
			require.Equal(t, tt.want.Subject, bad[0].Subject)
			require.Contains(t, bad[0].Text, tt.want.Text)
			require.NotContains(t, bad[0].Text, "\n")
			require.Contains(t, bad[0].Fix.String(), tt.want.Fix)
		})
	}
}

func TestThePortOfTheRunningPluginIsWell(t *testing.T) {
	for _, why := range []verdict.Reason{verdict.ReasonNone, verdict.ReasonNotListed} {
		files, c, n := probingFixture()
		s, _ := probingHost(t, files, c)
		n.listens = &os.SyscallError{Syscall: "bind", Err: unix.EADDRINUSE}
		n.answers["gpu01"] = greeting{why: why}
		r := Run(t.Context(), s)
		require.Equal(t, []Result{{Check: "fabric_listen", Subject: ":14791", Text: "the running plugin has the port"}}, r.resultsOf("fabric_listen"))
		require.Contains(t, n.asked, pinglist.Host{Name: "gpu01", Address: "localhost:14791"})
	}
	files, c, _ := probingFixture()
	c.Listen = ""
	s, _ := probingHost(t, files, c)
	r := Run(t.Context(), s)
	require.Equal(t, Skipped, r.resultsOf("fabric_listen")[0].Status)
}

func TestHostsThatDoNotAnswerCostTwoSecondsTogether(t *testing.T) {
	files, c, n := probingFixture()
	for _, host := range []string{"gpu01", "gpu02", "gpu04"} {
		n.answers[host] = greeting{why: "hangs"}
	}
	n.listens = unix.EADDRINUSE
	s, _ := probingHost(t, files, c)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := Run(t.Context(), s)
		require.Equal(t, greetTimeout, time.Since(began))
		for _, one := range r.resultsOf("fabric_peers") {
			require.Contains(t, one.Text, "no plugin answers at the peer's address (context deadline exceeded)")
		}
		require.Equal(t, Fail, r.resultsOf("fabric_listen")[0].Status)
	})
}

func TestAListThatIsMissingLeavesNoHostToGreet(t *testing.T) {
	files, c, n := probingFixture()
	s, _ := probingHost(t, files.with(tree{peersFile: ""}), c)
	r := Run(t.Context(), s)
	require.Equal(t, []Result{{Check: "fabric_peers", Status: Skipped, Text: "there is no other host to contact"}}, r.resultsOf("fabric_peers"))
	require.Empty(t, n.asked)
}

func TestProbesBetweenHostsPinMemoryToo(t *testing.T) {
	files, c, _ := probingFixture()
	s, _ := probingHost(t, files, c)
	s.LockedMemory = 128 << 10 // enough for the other probes
	r := Run(t.Context(), s)
	require.Equal(t, Fail, r.resultsOf("locked_memory")[0].Status)
	require.Contains(t, r.resultsOf("locked_memory")[0].Text, "one hardware device pin up to 928 KiB")
	c.IncludesDevice = func(string) bool { return false }
	r = Run(t.Context(), s)
	require.Equal(t, OK, r.resultsOf("locked_memory")[0].Status)
}
