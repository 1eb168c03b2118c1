package agent

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pairs"
	"rdma_events/internal/fabric/pinglist"
)

func (c *FabricConfig) options() []option {
	path := func(key string, value *string) option {
		return option{key, value, `an absolute path, or ""`, func() bool { return *value == "" || filepath.IsAbs(*value) }}
	}
	return []option{
		path("fabric.peers_file", &c.PeersFile),
		path("fabric.key_file", &c.KeyFile),
		path("fabric.tls_cert", &c.TLSCert),
		path("fabric.tls_key", &c.TLSKey),
		path("fabric.tls_ca", &c.TLSCA),
		{"fabric.listen", &c.Listen, `an address and a port from 1 to 65535, as in ":14791", or ""`, func() bool { return isListen(c.Listen) }},
		{"fabric.host", &c.Host, `the name of this host in fabric.peers_file, or ""`, anyValue},
		{
			"fabric.devices", &c.Devices, `a list of globs on device names, as in ["mlx5_*"]`,
			func() bool { return len(c.Devices) > 0 && allValid(&c.Devices, isGlob)() },
		},
		{"fabric.probe", &c.Probe, `true or false`, anyValue},
		{"fabric.peers", &c.Peers, `a number from 1 to 32`, intWithin(&c.Peers, 1, pairs.MaxPeers)},
		{
			"fabric.interval", &c.Interval, `a duration from "100ms" to "1m"`,
			durationWithin(&c.Interval, 100*time.Millisecond, time.Minute),
		},
		{"fabric.paths", &c.Paths, `a number from 1 to 4`, intWithin(&c.Paths, 1, verbs.MaxFabricPaths)},
		{"fabric.traffic_class", &c.TrafficClass, `a number from 0 to 255`, intWithin(&c.TrafficClass, 0, 255)},
		{"fabric.service_level", &c.ServiceLevel, `a number from 0 to 15`, intWithin(&c.ServiceLevel, 0, 15)},
	}
}

func isListen(address string) bool {
	if address == "" {
		return true
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 1 && n <= 65_535
}

// Enabled reports whether probes between hosts are configured.
func (c *FabricConfig) Enabled() bool { return c.PeersFile != "" || c.hosts != nil }

// Disable turns probes between hosts off.
func (c *FabricConfig) Disable() { c.PeersFile, c.hosts = "", nil }

// ProbeOnly makes this process probe other hosts without listening for their requests. A command uses it while the
// plugin on the same host occupies the TCP port.
func (c *FabricConfig) ProbeOnly() { c.peersPort, c.Listen, c.Probe = c.peerListenPort(), "", true }

// UseList replaces fabric.peers_file by a list. own is the name of this host in the list.
func (c *FabricConfig) UseList(l *pinglist.List, own string) {
	c.PeersFile, c.hosts, c.Host = "", l, own
}

// hasKey reports whether a key file or a certificate is configured, by which this host authenticates itself.
func (c *FabricConfig) hasKey() bool {
	return c.KeyFile != "" || c.TLSCert != "" && c.TLSKey != "" && c.TLSCA != ""
}

// validateFabric returns an error if options of the section fabric contradict each other.
func (c *Config) validateFabric() error {
	f := &c.Fabric
	some := f.TLSCert != "" || f.TLSKey != "" || f.TLSCA != ""
	switch {
	case !f.Enabled():
		return nil
	case f.KeyFile != "" && some:
		return notAllowed("fabric.key_file", &f.KeyFile, `"" where fabric.tls_cert, fabric.tls_key and fabric.tls_ca are set`)
	case !f.hasKey() && some:
		return notAllowed("fabric.tls_cert", &f.TLSCert, "fabric.tls_cert, fabric.tls_key and fabric.tls_ca together")
	case !f.hasKey() && !c.Simulated():
		return notAllowed("fabric.key_file", &f.KeyFile, "a file of at least 32 random bytes that all hosts have, as fabric.peers_file is set")
	case f.Listen == "" && !f.Probe:
		return notAllowed("fabric.probe", &f.Probe, `true where fabric.listen is ""`)
	}
	return nil
}

// HostName returns the name of this host in the list of hosts: fabric.host or, if that is not set, the name of the
// host.
func (c *FabricConfig) HostName() (string, error) {
	if c.Host != "" {
		return c.Host, nil
	}
	name, err := hostName()
	if err != nil {
		return "", fmt.Errorf("%s: fabric.host = \"\": %w", table, err)
	}
	return name, nil
}

// fabricRequest returns the fabric options for the worker of a device. They are zero if the device takes no part in
// probes between hosts.
func (c *Config) fabricRequest(device string) verbs.FabricOptions {
	f := &c.Fabric
	if !f.Enabled() || !f.IncludesDevice(device) {
		return verbs.FabricOptions{}
	}
	return verbs.FabricOptions{
		Paths: f.Paths, Interval: time.Duration(f.Interval), GIDIndex: c.Probe.GIDIndex, PKeyIndex: c.Probe.PKeyIndex,
		TrafficClass: f.TrafficClass, ServiceLevel: f.ServiceLevel,
	}
}

// IncludesDevice reports whether fabric.devices matches a watched device.
func (c *FabricConfig) IncludesDevice(device string) bool {
	match, err := compileGlobs(c.Devices) // Validate has rejected invalid globs
	return err == nil && match.Match(device)
}
