package doctor

import (
	"context"
	"slices"
	"sync"

	"rdma_events/internal/verbs"
)

// device is an RDMA device and what trying it came to.
type device struct {
	verbs.DeviceAttr        // but for Ports and Vectors
	node             string // as in "uverbs0"; "" none
	ports            []int
	trials           []trialOf
}

// soft reports whether the device is software, which pins no memory of its
// user and has no interrupts.
func (d *device) soft() bool { return d.Driver == "rdma_rxe" || d.Driver == "siw" }

// trialOf is a Trial and the method that was tried.
type trialOf struct {
	method verbs.Method
	Trial
}

// examination is one run of all checks.
type examination struct {
	*System
	plugin   PluginConfig
	telegraf []Result // of reading the configuration
	devices  []device // that the plugin would watch

	worker     Worker // nil: see workerErr
	workerErr  error
	workerPath string
	version    string // of the worker program
	versionErr error
	library    string // the file of libibverbs
	libraryErr error
}

// check is one question. The order of checks is that in which the answers
// depend on each other.
type check func(*examination) []Result

func checks() []check {
	return []check{
		checkModules, checkNodes, checkLibrary, checkProviders, checkLockedMemory, checkNetns,
		checkContainer, checkPorts, checkAddresses, checkProbes, checkEvents, checkRemoval, checkWorker, checkTelegraf,
	}
}

// Run examines the host. It blocks for some seconds where there are devices;
// the end of ctx ends it early, with what could not be tried reported as such.
func Run(ctx context.Context, s *System) Report {
	x := &examination{System: s}
	x.readTelegraf()
	x.openWorker()
	defer x.closeWorker()
	x.findDevices()
	if x.usable(ctx) {
		x.tryDevices(ctx)
	}
	r := Report{Version: s.Version, Kernel: s.read("proc/sys/kernel/osrelease"), User: s.UID}
	for _, c := range checks() {
		r.add(c(x)...)
	}
	return r
}

// findDevices lists what the plugin would watch and asks no driver: a device
// that is excluded is not to be touched.
func (x *examination) findDevices() {
	names, err := x.Sysfs.Devices()
	if err != nil {
		return // there are none to be seen, which checkModules reports
	}
	for _, name := range names {
		if x.plugin.Watches != nil && !x.plugin.Watches(name) {
			continue
		}
		x.devices = append(x.devices, device{
			DeviceAttr: x.Sysfs.Device(name), ports: x.portsOf(name),
		})
	}
	x.findNodes()
}

// findNodes notes the nodes that the devices have now.
func (x *examination) findNodes() {
	nodes, err := x.Sysfs.Nodes()
	if err != nil {
		return // checkNodes misses them
	}
	for i := range x.devices {
		x.devices[i].node = nodes[x.devices[i].Name]
	}
}

// usable asks the worker program about itself.
func (x *examination) usable(ctx context.Context) bool {
	if x.worker == nil {
		return false
	}
	if x.version, x.versionErr = x.worker.Version(ctx); x.versionErr != nil {
		return false
	}
	x.library, x.libraryErr = x.worker.Library(ctx)
	return x.libraryErr == nil
}

// tryDevices asks the worker program for all that only a program with the
// library can find out. A device is tried by one worker at a time.
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

// loadUverbs has a worker ask for a device that has no node: for that the kernel
// loads ib_uverbs (ib_get_client_nl_info in drivers/infiniband/core/device.c),
// which not every driver does by itself. What comes of it does not count, since
// this worker was confined to the nodes that there were.
func (x *examination) loadUverbs(ctx context.Context) {
	i := slices.IndexFunc(x.devices, func(d device) bool { return d.node == "" })
	if i < 0 {
		return
	}
	x.worker.Try(ctx, x.devices[i].Name, verbs.MethodRCWrite)
	x.findNodes()
}

// tryAll tries all methods. Flush comes last, and not where the driver counts
// flushes: an operator may be alerted by that count.
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
