package report

import "time"

// Resources is the content of resources.json.
type Resources struct {
	Schema  int              `json:"schema"`
	Time    time.Time        `json:"time"`
	Devices []DeviceResource `json:"devices"`
}

// DeviceResource counts the objects of a device, of all processes and of the kernel.
type DeviceResource struct {
	Device string            `json:"device"`
	Counts map[string]uint64 `json:"resources,omitempty"` // by kind: qp, cq, mr, pd, cm_id, ctx, srq
	Error  string            `json:"error,omitempty"`
}

// ReadResources counts the objects of devices. count is nldev.QueryResources, except in tests.
func ReadResources(now time.Time, devices []string, count func(device string) (map[string]uint64, error)) *Resources {
	all := &Resources{Schema: Schema, Time: now.UTC(), Devices: []DeviceResource{}}
	for _, name := range devices {
		one := DeviceResource{Device: name}
		var err error
		if one.Counts, err = count(name); err != nil {
			one.Error = err.Error()
		}
		all.Devices = append(all.Devices, one)
	}
	return all
}
