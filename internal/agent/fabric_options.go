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
		{"fabric.host", &c.Host, `the name of this host in fabric.peers_file, or ""`, always},
		{
			"fabric.devices", &c.Devices, `a list of globs on device names, as in ["mlx5_*"]`,
			func() bool { return len(c.Devices) > 0 && each(&c.Devices, isGlob)() },
		},
		{"fabric.probe", &c.Probe, `true or false`, always},
		{"fabric.peers", &c.Peers, `a number from 1 to 32`, within(&c.Peers, 1, pairs.MaxPeers)},
		{
			"fabric.interval", &c.Interval, `a duration from "100ms" to "1m"`,
			lastsWithin(&c.Interval, 100*time.Millisecond, time.Minute),
		},
		{"fabric.paths", &c.Paths, `a number from 1 to 4`, within(&c.Paths, 1, verbs.MaxFabricPaths)},
		{"fabric.traffic_class", &c.TrafficClass, `a number from 0 to 255`, within(&c.TrafficClass, 0, 255)},
		{"fabric.service_level", &c.ServiceLevel, `a number from 0 to 15`, within(&c.ServiceLevel, 0, 15)},
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

// On reports whether hosts are probed or answered.
func (c *FabricConfig) On() bool { return c.PeersFile != "" || c.hosts != nil }

// Off has hosts neither be probed nor answered.
func (c *FabricConfig) Off() { c.PeersFile, c.hosts = "", nil }

// ProbeOnly has other hosts be probed and not answered, as a command does beside the plugin, which has the port.
func (c *FabricConfig) ProbeOnly() { c.peersPort, c.Listen, c.Probe = c.port(), "", true }

// Use has the hosts of a list probe each other, instead of those of fabric.peers_file. own is the name of this one.
func (c *FabricConfig) Use(l *pinglist.List, own string) { c.PeersFile, c.hosts, c.Host = "", l, own }

// hasKey reports whether something is configured that proves who this host is.
func (c *FabricConfig) hasKey() bool {
	return c.KeyFile != "" || c.TLSCert != "" && c.TLSKey != "" && c.TLSCA != ""
}

// validateFabric refuses options of the fabric that contradict each other.
func (c *Config) validateFabric() error {
	f := &c.Fabric
	some := f.TLSCert != "" || f.TLSKey != "" || f.TLSCA != ""
	switch {
	case !f.On():
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

// HostName returns the name of this host in the list.
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

// fabricRequest returns what the worker of a device is asked for.
func (c *Config) fabricRequest(device string) verbs.FabricOptions {
	f := &c.Fabric
	if !f.On() || !f.Wants(device) {
		return verbs.FabricOptions{}
	}
	return verbs.FabricOptions{
		Paths: f.Paths, Interval: time.Duration(f.Interval), GIDIndex: c.Probe.GIDIndex, PKeyIndex: c.Probe.PKeyIndex,
		TrafficClass: f.TrafficClass, ServiceLevel: f.ServiceLevel,
	}
}

// Wants reports whether a device that is watched probes and answers.
func (c *FabricConfig) Wants(device string) bool {
	match, err := compile(c.Devices) // Check has refused globs that are none
	return err == nil && match.Match(device)
}
