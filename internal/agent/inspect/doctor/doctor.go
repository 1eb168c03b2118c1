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
	whyNoNode        string // why it will never have a node; "" if it has or should have one
	ports            []int
	trials           []methodTrial
}

// isSoft reports whether the device is implemented in software. Such a device pins no user memory and has no
// interrupts.
func (d *device) isSoft() bool { return d.Driver == "rdma_rxe" || d.Driver == "siw" }

// methodTrial is a Trial with the method that was tried.
type methodTrial struct {
	method verbs.Method
	inspect.Trial
}

// examination is one run of all checks.
type examination struct {
	*System
	plugin           PluginConfig
	telegraf         []Result // from reading the configuration
	devices          []device // the devices that the plugin would watch
	excluded         []string // devices that the options devices, devices_exclude and ports exclude
	unwatchedPorts   []string // ports of watched devices that the option ports excludes, as in "mlx5_0:2"
	skippedFunctions int      // number of functions that virtual_functions excludes
	released         []Result // results about released devices, which no check opens

	worker     Worker // nil if workerErr is set
	workerErr  error
	workerPath string
	version    string // version of the worker program
	versionErr error
	library    string // path of libibverbs
	libraryErr error
	links      []linkAnswer
	rates      map[string]float64 // by the subject of the port; see peerRate
	tracer     *tracerFindings    // nil if the tracer is not examined
	fabric     *fabricFindings    // nil if no hosts are probed
}

// check examines one aspect of the host.
type check func(*examination) []Result

// allChecks returns all checks. A check comes after the checks on which its result depends.
func allChecks() []check {
	return []check{
		checkReleased, checkNotWatched, checkExpected, checkModules, checkNodes, checkLibrary, checkProviders, checkLockedMemory, checkNetns,
		checkContainer, checkPCILinks, checkPorts, checkExtState, checkAddresses, checkFirmware, checkProbes, checkEvents, checkRemoval, checkWorker,
		checkTracer, checkFabric, checkRecords, checkKernelLog, checkTelegraf,
	}
}

// Run examines the host. If there are devices, it blocks for some seconds. If ctx ends, Run returns early and reports
// each device that it could not try.
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
	x.tryFabric(ctx)
	r := Report{Version: s.Version, Kernel: s.read("proc/sys/kernel/osrelease"), User: s.UID}
	for _, c := range allChecks() {
		r.addResults(c(x)...)
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
		here[i], _ = x.Sysfs.Function(name) // without network devices if they cannot be listed
	}
	for i, name := range names {
		if x.plugin.Watches != nil && !x.plugin.Watches(name) {
			x.excluded = append(x.excluded, name)
			continue
		}
		if !x.plugin.VirtualFunctions.Watches(here[i], here) {
			x.skippedFunctions++
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

// watchedPorts returns the ports of a device that the plugin would watch, and stores the others in unwatchedPorts.
func (x *examination) watchedPorts(device string) (watched []int) {
	for _, port := range x.portsOf(device) {
		if x.watchesPort(device, port) {
			watched = append(watched, port)
			continue
		}
		x.unwatchedPorts = append(x.unwatchedPorts, fmt.Sprintf("%s:%d", device, port))
	}
	return watched
}

func (x *examination) watchesPort(device string, port int) bool {
	return x.plugin.WatchesPort == nil || x.plugin.WatchesPort(device, port)
}

// findNodes finds the current nodes of the devices, and why other devices have none.
func (x *examination) findNodes() {
	nodes, err := x.Sysfs.Nodes()
	if err != nil {
		return // checkNodes reports the missing nodes
	}
	loaded := x.Sysfs.HasNodeClass()
	var types map[string]hotplug.Type
	for i := range x.devices {
		d := &x.devices[i]
		d.node, d.whyNoNode = nodes[d.Name], ""
		if d.node != "" {
			d.whyNoNode = x.NodeAbsence(d.node).Explain(d.node)
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
		d.whyNoNode, _ = hotplug.WhyNoNode(d.Name, types, true)
	}
}

// whyUnwatchable returns why no program can open the device although the device is not faulty. It returns "" if the
// device can be opened or should be.
func (d *device) whyUnwatchable() string {
	if d.whyNoNode == "" && len(d.trials) > 0 && d.trials[0].Reason == status.ReasonUnwatchable {
		return d.trials[0].Why
	}
	return d.whyNoNode
}

// askWorker queries the version and the library of the worker program. It reports whether the program can try devices.
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

// tryDevices opens and probes the devices with the worker program, because only a program that loads the library can do
// so. At most one worker tries a device at a time.
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
			d.tryMethods(ctx, x.worker)
		})
	}
	all.Wait()
}

// loadUverbs makes a worker try a device without a node. The kernel then loads ib_uverbs (ib_get_client_nl_info in
// drivers/infiniband/core/device.c); not every driver loads it. The result of this trial is ignored, because the worker
// was confined to the nodes that existed when it started.
func (x *examination) loadUverbs(ctx context.Context) {
	i := slices.IndexFunc(x.devices, func(d device) bool { return d.node == "" && d.whyNoNode == "" })
	if i < 0 {
		return
	}
	x.worker.Try(ctx, x.devices[i].Name, verbs.MethodRCWrite)
	x.findNodes()
}

// tryMethods tries all methods. The last one is flush. It is skipped if the driver counts flushes, because that count
// may raise an alert of the user.
func (d *device) tryMethods(ctx context.Context, w Worker) {
	for _, m := range []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush} {
		counted := slices.ContainsFunc(d.trials, func(t methodTrial) bool { return t.Attr.CountsFlushes })
		if m == verbs.MethodFlush && counted {
			return
		}
		t := methodTrial{m, w.Try(ctx, d.Name, m)}
		d.trials = append(d.trials, t)
		if !t.Opened {
			return // no other method could open the device
		}
	}
}
