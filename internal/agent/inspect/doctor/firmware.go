package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/verbs"
)

// kernelLogWord returns a word that occurs in the device's lines in the kernel log. Lines of a scalable function begin
// with its driver.
func (d *device) kernelLogWord() string {
	if d.Driver == verbs.DriverScalable {
		return d.Driver
	}
	return cmp.Or(d.PCIAddress, d.Driver, d.Name)
}

// firmwareTimeout is the time limit for reading one counter from the device's firmware.
const firmwareTimeout = 5 * time.Second

// checkFirmware reports how long each device's firmware takes to answer. It reads a hw_counter of drivers that ask the
// firmware for it.
func checkFirmware(x *examination) []Result {
	var results []Result
	for i := range x.devices {
		d := &x.devices[i]
		if !verbs.DriverCommands(d.Driver).Has(verbs.CommandHWCounters) || len(d.ports) == 0 {
			continue
		}
		r := Result{Check: "firmware", Subject: d.Name}
		_, took, err := inspect.TimeCall(context.Background(), firmwareTimeout, func() (struct{}, error) {
			return struct{}{}, x.Sysfs.ReadHWCounter(d.Name, d.ports[0])
		})
		switch {
		case errors.Is(err, inspect.ErrNoAnswer):
			r.Status, r.Fix = Warn, x.command(advice.ShowKernelLogOf, d.kernelLogWord())
			r.Text = fmt.Sprintf("the firmware has not answered a reading of a hw_counter within %s", firmwareTimeout)
		case errors.Is(err, fs.ErrNotExist):
			r.Text = "its port has no hw_counters here: its firmware is not asked"
			if verbs.DriverCommands(d.Driver).Has(verbs.CommandQueryQP) {
				r.Text = "its port has no hw_counters here: the plugin queries the probe's queue pair"
			}
		case err != nil:
			r.Status, r.Text, r.Fix = Warn, err.Error(), x.command(advice.ShowKernelLogOf, d.kernelLogWord())
		default:
			r.Text = fmt.Sprintf("answers a reading of a hw_counter in %s", took.Round(time.Microsecond))
		}
		results = append(results, r)
	}
	return results
}
