package doctor

import (
	"fmt"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/verbs"
)

// checkEvents reports which drivers raise asynchronous events.
func checkEvents(x *examination) []Result {
	const name = "events"
	var results []Result
	for i := range x.devices {
		d := &x.devices[i]
		r := Result{Check: name, Subject: d.Name, Text: "its driver " + d.Driver + " raises asynchronous events"}
		if !verbs.DriverRaisesEvents(d.Driver) {
			r.Status = Warn
			r.Text = "its driver " + d.Driver + " raises no asynchronous events; ports are only queried, every state_interval: set it to 500ms"
			r.Fix = x.editConfig()
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return []Result{{Check: name, Status: Skipped, Text: "no device, so no driver"}}
	}
	return results
}

// checkRemoval reports what happens when a watched device is removed or its driver is unloaded. When a device is
// removed, either the kernel takes the device away from its users, or a uevent announces the removal and the worker
// closes the device.
func checkRemoval(x *examination) []Result {
	const name = "removal"
	release := advice.ReleaseDevices.Line() // root and the plugin's user may run it
	err := x.Uevents()
	var results []Result
	for i := range x.devices {
		d := &x.devices[i]
		r := Result{Check: name, Subject: d.Name, Text: "can be removed while it is watched: the worker notices the removal in time and closes the device"}
		unload := drivers.Unload(d.Driver, drivers.ParseRelease(x.read("proc/sys/kernel/osrelease")))
		switch {
		case unload == drivers.UnloadWorks:
			r.Text = "can be removed while it is watched, and its driver can be unloaded: the kernel takes the device away from the programs that use it"
		case err != nil:
			r.Status = Warn
			r.Text = fmt.Sprintf("a removal may have to wait 10 s for the worker, because no uevent tells the worker of it: %v", err)
			r.Text += fmt.Sprintf("; run `%s` before a removal", release)
			r.Fix = x.command(advice.ReleaseDevices)
		case unload == drivers.UnloadRefused:
			r.Text += fmt.Sprintf("; its driver %s cannot be unloaded (in use) while it is watched: run `%s` first", d.Driver, release)
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return []Result{{Check: name, Status: Skipped, Text: "no device, so none to be removed"}}
	}
	return results
}
