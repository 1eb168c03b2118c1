package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"rdma_events/internal/agent"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/agent/inspect/doctor"
	"rdma_events/internal/device/routes"
)

const doctorAbout = `Checks whether the RDMA devices of this host can be watched, and shows how to fix
each problem. Exit status 0: no problem; 1: a warning; 2: a failure.
A check that has nothing to examine is skipped, and does not count as OK.
Run it as Telegraf's user: sudo -u telegraf rdma-events doctor
With a configuration that has fabric.peers_file it also connects to two other hosts.
With -hardware it tries one device for at most two minutes, and writes a file with
the results, to be sent in; exit status 0: the file is written. It asks before it
does anything that others could notice, and refuses a device that other programs
use, unless -yes is given.
`

// doctorFlags are the flags of the subcommand doctor.
type doctorFlags struct {
	config     string
	apps       bool
	json       bool
	onHardware bool
	hardware   hardwareFlags
}

func (o *doctorFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("doctor", stderr)
	set.StringVar(&o.config, "config", "", "also check this configuration of Telegraf or of the plugin")
	set.BoolVar(&o.apps, "applications", false, "check the requirements of applications.events even if it is off")
	set.BoolVar(&o.json, "json", false, "write the result as one JSON object")
	set.BoolVar(&o.onHardware, "hardware", false, "try one device and write a file to send in")
	deviceVar(set, &o.hardware.device, "with -hardware: the `name` of the device; required if there are several")
	set.StringVar(&o.hardware.out, "out", "", "with -hardware: path of the file; by default rdma-events-hardware-HOST-DEVICE.json in the current directory")
	set.BoolVar(&o.hardware.yes, "yes", false, "with -hardware: allow rc_write, flush and a device that others use")
	return set
}

// runDoctor runs the subcommand doctor.
func runDoctor(args []string, stdout *os.File, stderr io.Writer) int {
	var o doctorFlags
	set := o.define(stderr)
	if code, ok := parseFlags(set, args, "name the file with -config"); !ok {
		return code
	}
	switch {
	case !o.onHardware && o.hardware != (hardwareFlags{}):
		return reportMisuse(set, "-device, -out and -yes go with -hardware")
	case o.onHardware && o.apps:
		return reportMisuse(set, "-hardware tries a device, so -applications does not go with it")
	case o.onHardware && o.json:
		return reportMisuse(set, "-hardware writes a file, so -json does not go with it: name the file with -out")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.hardware.config = o.config; o.onHardware {
		return tryHardware(ctx, o.hardware, stderr)
	}
	s, err := newSystem(o.config)
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	s.Applications = o.apps
	r := doctor.Run(ctx, s)
	if o.json {
		err = r.WriteJSON(stdout)
	} else {
		err = r.WriteText(stdout, statusColours(stdout))
	}
	if err != nil {
		return int(doctor.Fail)
	}
	return int(r.Status)
}

// newSystem returns the facts about this host that the doctor needs, with the plugin's configuration and worker
// program.
func newSystem(config string) (*doctor.System, error) {
	s := doctor.NewSystem()
	s.Version, s.Records = buildVersion(), defaultRecords
	released := releasedUntilFunc()
	s.Released = func(device string) string { return released(identifyDevice(device)) }
	s.CarriesDefaultRoute = routes.Table{}.CarriesDefault
	var err error
	if s.WorkerPath, err = agent.WorkerPath(); err != nil {
		return nil, err
	}
	if s.TracerPath, err = agent.TracerPath(); err != nil {
		return nil, err
	}
	s.OpenTracer = func(path string) (doctor.Tracer, error) {
		t, err := inspect.OpenTracer(path)
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	s.OpenWorker = func(path string) (doctor.Worker, error) {
		p, err := inspect.OpenWorkerProgram(path)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	if config != "" {
		if s.Config, err = filepath.Abs(config); err != nil {
			return nil, err
		}
	}
	s.Plugin = func(path string) (doctor.PluginConfig, error) {
		c, err := loadConfig(path)
		if err != nil {
			return doctor.PluginConfig{}, err
		}
		p := doctor.PluginConfig{
			Simulated: c.Simulated(), WorkerPath: c.WorkerPath, Records: c.Recorder.Directory, ExpectedDown: c.ExpectsDown,
			WatchesPort: func(device string, port int) bool { return c.WatchesPort(device, port, 0) },
			Expected:    expectedDevices(&c), ExpectedRate: c.ExpectedRate, Role: c.Roles.Role,
			VirtualFunctions: c.WatchedFunctions(), Vectors: c.Probe.CountVectors, Events: c.Applications.Events, TracerPath: c.Applications.TracerPath,
		}
		p.Fabric = newFabricConfig(&c)
		if err := c.Check(); err != nil && !errors.Is(err, agent.ErrNoTracer) { // the doctor examines the tracer itself
			return p, err
		}
		p.Watches, err = c.DeviceFilter()
		return p, err
	}
	return s, nil
}

// expectedDevices returns the devices that the configuration requires.
func expectedDevices(c *agent.Config) doctor.Expected {
	e := doctor.Expected{Names: c.ExpectedNames()}
	for _, g := range c.ExpectedGroups() {
		e.Groups = append(e.Groups, doctor.ExpectedGroup{Label: g.Label, Matches: g.Matches, Count: g.Count})
	}
	return e
}

// newFabricConfig returns the configuration of probes between hosts for the doctor, or nil if these are off.
func newFabricConfig(c *agent.Config) *doctor.FabricConfig {
	f := &c.Fabric
	if !f.Enabled() {
		return nil
	}
	host, err := f.HostName()
	if err != nil {
		host = "" // the list has no such host
	}
	return &doctor.FabricConfig{
		Host: host, PeersFile: f.PeersFile, KeyFile: f.KeyFile, TLSCert: f.TLSCert, TLSKey: f.TLSKey, TLSCA: f.TLSCA,
		Probe: f.Probe, Peers: f.Peers, Listen: f.Listen, TrafficClass: f.TrafficClass, GIDIndex: c.Probe.GIDIndex,
		IncludesDevice: f.IncludesDevice, Greet: c.Greet, TryListen: f.TryListen,
	}
}

// statusColours returns a function that colours a status, or nil if colours are not wanted.
func statusColours(stdout *os.File) func(doctor.Status, string) string {
	if !isTerminal(stdout) {
		return nil
	}
	return func(s doctor.Status, text string) string {
		// Bright black, green, yellow, red (console_codes(4)).
		colour := [...]string{"90", "32", "33", "31"}[s-doctor.Skipped]
		return "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
}
