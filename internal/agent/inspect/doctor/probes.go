package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// checkProbes reports which probe methods work on each port.
func checkProbes(x *examination) []Result {
	const name = "probes"
	if len(x.devices) == 0 {
		return []Result{{Check: name, Status: Skipped, Text: "no device to try them on"}}
	}
	if x.library == "" {
		fix := x.installLibrary()
		if x.worker == nil || x.versionErr != nil {
			fix = x.installWorker()
		}
		return []Result{{Check: name, Status: Warn, Fix: fix, Text: "not tried, because the worker program or the library cannot be used"}}
	}
	var results []Result
	for i := range x.devices {
		d := &x.devices[i]
		if !d.wasOpened() {
			results = append(results, x.notOpened(d))
			continue
		}
		for _, port := range d.trials[0].Attr.WatchedPorts(nil) {
			if x.watchesPort(d.Name, port) {
				results = append(results, x.checkProbe(d, port))
			}
		}
	}
	return results
}

// notOpened returns the result for a device that the worker could not open.
func (x *examination) notOpened(d *device) Result {
	r := Result{Check: "probes", Subject: d.Name, Status: Fail, Text: "it has no node to open", Fix: x.makeNodes()}
	if why := d.whyUnwatchable(); why != "" {
		return Result{Check: "probes", Subject: d.Name, Status: Skipped, Text: "not watched: " + why}
	}
	if len(d.trials) == 0 {
		return r
	}
	t := d.trials[0]
	r.Text = t.Why
	node := x.checkNode(d)
	switch {
	case node.Status == Fail: // regardless of the library's error
		r.Fix = node.Fix
	case t.Reason == status.ReasonNoPermission:
		r.Fix = x.command(advice.OpenNode, "/dev/infiniband/"+d.node)
	case t.Reason == status.ReasonExcludedNetns:
		r.Fix = x.command(advice.ShowNamespaces)
	case t.Reason == status.ReasonLimit:
		r.Fix = x.raiseLimit("LimitMEMLOCK=8M")
	case t.Reason == status.ReasonUnsupported, t.Reason == status.ReasonNoLibrary:
		r.Fix = x.installLibrary()
	default:
		r.Fix = x.command(advice.ShowKernelLog)
	}
	if r.Text == "" {
		r.Text = fmt.Sprintf("the worker did not answer within %v", inspect.TrialTimeout)
	}
	return r
}

// checkProbe reports the result of each method on one port. One working method is enough. If none works on a port that
// is down, that is a warning, or nothing if expected_down lists the port. An event that the method flush loses is not a
// fault by itself: some libraries complete flushed work requests without an event, and the plugin uses another method
// there.
func (x *examination) checkProbe(d *device, port int) Result {
	r := Result{Check: "probes", Subject: portSubject(d.Name, port)}
	var works, fails []string
	lost := false
	if query := d.trials[0].Ports[port].Query; verbs.IsRefusalStatus(query) {
		r.Status = Warn
		r.Text, r.Fix = x.describeRefusal(d, "ibv_query_port", query)
		return r
	}
	for _, t := range d.trials {
		text, ok := describeTrial(t.Ports[port])
		if ok {
			works = append(works, t.method.String()+" "+text)
			continue
		}
		fails = append(fails, t.method.String()+" "+text)
		lost = lost || t.method != verbs.MethodFlush && slices.ContainsFunc(t.Ports[port].Rounds, func(r verbs.Round) bool {
			return r.Outcome == verbs.OutcomeLostEvent
		})
	}
	r.Text = strings.Join(slices.Concat(works, fails), "; ")
	switch {
	case lost:
		r.Status, r.Fix = Fail, x.command(advice.ShowInterrupts, d.interruptWord())
		r.Text += "; completions arrive, but their events do not: check the interrupts"
	case len(works) > 0:
	case x.portState(d.Name, port) != "ACTIVE" && x.expectsDown(d, port):
		r.Status, r.Text = Skipped, "none works while the port is not active, and expected_down lists it: "+r.Text
	case x.portState(d.Name, port) != "ACTIVE":
		r.Status, r.Text = Warn, "none works while the port is not active: "+r.Text
		_, r.Fix = x.whyDown("", d.Name, port, x.portAttr(d.Name, port, "phys_state"), x.findNetDev(d.Name, ""))
	case d.Transport != "iwarp" && x.lacksGIDs(d, port) && x.Sysfs.Addresses(d.Name, port).GIDs == 0:
		r.Status, r.Text = Skipped, "no probe without a GID: "+r.Text
	default:
		r.Status, r.Fix = Fail, x.command(advice.ShowKernelLog)
		r.Text = "none works: " + r.Text
	}
	return r
}

// interruptWord returns a word that occurs in the device's lines in /proc/interrupts.
func (d *device) interruptWord() string {
	if d.PCIAddress != "" {
		return d.PCIAddress
	}
	return d.Driver
}

// describeTrial returns the result of a method on a port as text: the wake-up latency, or why the method does not work.
func describeTrial(t inspect.PortTrial) (text string, ok bool) {
	if t.Refused != "" {
		return "cannot: " + t.Refused, false
	}
	var wakes []int64
	for _, r := range t.Rounds {
		if r.Outcome != verbs.OutcomeSuccess {
			return strings.TrimSpace("ends as " + r.Outcome.String() + " " + r.Status), false
		}
		wakes = append(wakes, r.Wake)
	}
	if len(wakes) == 0 {
		return "gave no answer", false
	}
	slices.Sort(wakes)
	return "works (wake-up " + time.Duration(wakes[len(wakes)/2]).Round(time.Microsecond).String() + ")", true
}
