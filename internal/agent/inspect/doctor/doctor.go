package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// device is an RDMA device with the results of its trials.
type device struct {
	verbs.DeviceAttr        // without Ports and Vectors
	node             string // as in "uverbs0"; "" if there is none
	nodeless         string // why it never gets a node; "" if it has one or should have one
	ports            []int
	trials           []trialOf
}

// soft reports whether the device is implemented in software. Such a device pins
// no user memory and has no interrupts.
func (d *device) soft() bool { return d.Driver == "rdma_rxe" || d.Driver == "siw" }

// trialOf is a Trial with the method that was tried.
type trialOf struct {
	method verbs.Method
	inspect.Trial
}

// examination is one run of all checks.
type examination struct {
	*System
	plugin   PluginConfig
	telegraf []Result // from reading the configuration
	devices  []device // the devices that the plugin would watch
	excluded []string // devices that the plugin would not watch because of their names
	others   []string // ports of watched devices that the plugin would not watch, as "mlx5_0:2"
	skipped  int      // functions that it would not watch because of virtual_functions
	released []Result // about the devices that it would watch, and that are released: nothing touches them

	worker     Worker // nil if it could not be opened: see workerErr
	workerErr  error
	workerPath string
	version    string // of the worker program
	versionErr error
	library    string // the file of libibverbs
	libraryErr error
	links      []linkAnswer
	rates      map[string]float64 // of ports, by their subjects: see comparedRate
	tracing    *tracing           // nil: it is not examined
	hosts      *hosts             // nil: none are probed
}

// check examines one aspect of the host.
type check func(*examination) []Result

// checks returns all checks, ordered so that a check comes after those that its
// result depends on.
func checks() []check {
	return []check{
		checkReleased, checkNotWatched, checkExpected, checkModules, checkNodes, checkLibrary, checkProviders, checkLockedMemory, checkNetns,
		checkContainer, checkPCILinks, checkPorts, checkExtState, checkAddresses, checkFirmware, checkProbes, checkEvents, checkRemoval, checkWorker,
		checkTracer, checkFabric, checkRecords, checkKernelLog, checkTelegraf,
	}
}

// Run examines the host. If there are devices, it blocks for some seconds. If ctx
// ends, Run returns early and reports each device that it could not try.
func Run(ctx context.Context, s *System) Report {
	x := &examination{System: s}
	x.readTelegraf()
	x.openWorker()
	defer x.closeWorker()
	x.findDevices()
	if x.askWorker(ctx) {
		x.tryDevices(ctx)
	}
	x.askLinks(ctx)
	x.tryTracer(ctx)
	x.tryHosts(ctx)
	r := Report{Version: s.Version, Kernel: s.read("proc/sys/kernel/osrelease"), User: s.UID}
	for _, c := range checks() {
		r.add(c(x)...)
	}
	return r
}

// findDevices lists the devices that the plugin would watch. It sends no request
// to a driver, because an excluded device must not be touched.
func (x *examination) findDevices() {
	names, err := x.Sysfs.Devices()
	if err != nil {
		return // no device is visible; checkModules reports that
	}
	here := make([]verbs.Found, len(names))
	for i, name := range names {
		here[i], _ = x.Sysfs.Function(name) // without the network devices, if they cannot be listed
	}
	for i, name := range names {
		if x.plugin.Watches != nil && !x.plugin.Watches(name) {
			x.excluded = append(x.excluded, name)
			continue
		}
		if !x.plugin.VirtualFunctions.Watches(here[i], here) {
			x.skipped++
			continue
		}
		if text := x.releasedUntil(name); text != "" {
			x.released = append(x.released, Result{Check: releasedCheck, Subject: name, Status: Skipped,
				Text: fmt.Sprintf("%s: it is not opened; `%s` ends that", text, advice.ResumeDevices.Line())})
			continue
		}
		x.devices = append(x.devices, device{DeviceAttr: x.Sysfs.Device(name), ports: x.watchedPorts(name)})
	}
	x.findNodes()
}

// watchedPorts returns the ports of a device that the plugin would watch, and records the others.
func (x *examination) watchedPorts(device string) (watched []int) {
	for _, port := range x.portsOf(device) {
		if x.watchesPort(device, port) {
			watched = append(watched, port)
			continue
		}
		x.others = append(x.others, fmt.Sprintf("%s:%d", device, port))
	}
	return watched
}

func (x *examination) watchesPort(device string, port int) bool {
	return x.plugin.WatchesPort == nil || x.plugin.WatchesPort(device, port)
}

// findNodes records the nodes that the devices have now, and why the others have none.
func (x *examination) findNodes() {
	nodes, err := x.Sysfs.Nodes()
	if err != nil {
		return // checkNodes reports the missing nodes
	}
	loaded := x.Sysfs.HasNodeClass()
	var types map[string]hotplug.Type
	for i := range x.devices {
		d := &x.devices[i]
		d.node, d.nodeless = nodes[d.Name], ""
		if d.node != "" {
			d.nodeless = x.NodeAbsence(d.node).Explain(d.node)
			continue
		}
		if !loaded {
			continue
		}
		if types == nil {
			if types, err = x.Types(); verbs.Shortage(err) != "" {
				return
			}
		}
		d.nodeless, _ = hotplug.WhyNoNode(d.Name, types, true)
	}
}

// unwatchable returns why nothing can open the device, and nothing is wrong with that; "" if it can be opened or should be.
func (d *device) unwatchable() string {
	if d.nodeless == "" && len(d.trials) > 0 && d.trials[0].Reason == status.ReasonUnwatchable {
		return d.trials[0].Why
	}
	return d.nodeless
}

// askWorker queries the worker program's version and library, and reports whether
// the program can try devices.
func (x *examination) askWorker(ctx context.Context) bool {
	if x.worker == nil {
		return false
	}
	if x.version, x.versionErr = x.worker.AskVersion(ctx); x.versionErr != nil {
		return false
	}
	x.library, x.libraryErr = x.worker.AskLibrary(ctx)
	return x.libraryErr == nil
}

// tryDevices has the worker program open and probe the devices, because only a
// program with the library can do that. One worker at a time tries a device.
func (x *examination) tryDevices(ctx context.Context) {
	const together = 8
	var all sync.WaitGroup
	slots := make(chan struct{}, together)
	x.loadUverbs(ctx)
	for i := range x.devices {
		d := &x.devices[i]
		if d.node == "" {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			d.tryAll(ctx, x.worker)
		})
	}
	all.Wait()
}

// loadUverbs has a worker try a device that has no node. The kernel then loads
// ib_uverbs (ib_get_client_nl_info in drivers/infiniband/core/device.c); not
// every driver loads it by itself. The result of this trial is ignored, because
// this worker was confined to the nodes that existed at its start.
func (x *examination) loadUverbs(ctx context.Context) {
	i := slices.IndexFunc(x.devices, func(d device) bool { return d.node == "" && d.nodeless == "" })
	if i < 0 {
		return
	}
	x.worker.Try(ctx, x.devices[i].Name, verbs.MethodRCWrite)
	x.findNodes()
}

// tryAll tries all methods. Flush comes last. It is skipped if the driver counts
// flushes, because that count may raise an alert.
func (d *device) tryAll(ctx context.Context, w Worker) {
	for _, m := range []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush} {
		counted := slices.ContainsFunc(d.trials, func(t trialOf) bool { return t.Attr.CountsFlushes })
		if m == verbs.MethodFlush && counted {
			return
		}
		t := trialOf{m, w.Try(ctx, d.Name, m)}
		d.trials = append(d.trials, t)
		if !t.Opened {
			return // no other method will open it
		}
	}
}
