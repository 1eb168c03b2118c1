package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"rdma_events/internal/verbs"
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
			r.Text = "its driver " + d.Driver + " raises no asynchronous events; ports are queried every state_interval, which should be 500ms then"
			r.Fix = "sudoedit /etc/telegraf/rdma_events.conf"
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return []Result{{Check: name, Status: Skipped, Text: "no device, so no driver"}}
	}
	return results
}

// removable returns, for each driver, the first kernel release that can remove a
// device while programs have it open (ib_device_ops.disassociate_ucontext in
// drivers/infiniband of Debian's 6.1, 6.12 and 7.3; the releases in between were
// not checked).
func removable() map[string][2]int {
	return map[string][2]int{
		"mlx4_core": {6, 1}, "mlx5_core": {6, 1}, "hns3": {6, 1}, "ice": {6, 1}, "i40e": {6, 1},
		"bnxt_en": {6, 12}, "erdma": {6, 12}, "mana": {6, 12},
		"ionic": {7, 3}, "rdma_rxe": {7, 3},
	}
}

// checkRemoval reports whether a device can be removed while it is watched:
// either the kernel takes it away from its users, or a uevent announces the
// removal and the worker closes the device.
func checkRemoval(x *examination) []Result {
	const name = "removal"
	err := x.Uevents()
	var results []Result
	for i := range x.devices {
		d := &x.devices[i]
		r := Result{Check: name, Subject: d.Name}
		since, known := removable()[d.Driver]
		switch {
		case known && !x.before(since):
			r.Text = "can be removed while watched: the kernel takes it away from its users"
		case err == nil:
			r.Text = "can be removed while watched: the worker sees the removal coming and lets go"
		default:
			r.Status = Warn
			r.Text = fmt.Sprintf("a removal may have to wait 10 s for the worker, which the kernel does not tell: %v", err)
			r.Fix = x.asRoot("systemctl stop telegraf # before the device is removed")
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return []Result{{Check: name, Status: Skipped, Text: "no device, so none to be removed"}}
	}
	return results
}

// before reports whether this kernel is older than a release. If the kernel's
// release cannot be read, the kernel counts as older.
func (x *examination) before(release [2]int) bool {
	parts := strings.SplitN(x.read("proc/sys/kernel/osrelease"), ".", 3)
	if len(parts) < 2 {
		return true
	}
	major, minor := leading(parts[0]), leading(parts[1])
	return major < release[0] || major == release[0] && minor < release[1]
}

// leading returns the number that a text begins with, 0 if there is none.
func leading(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.Atoi(text[:end])
	if err != nil {
		return 0
	}
	return n
}
