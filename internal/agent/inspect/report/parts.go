package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"rdma_events/internal/device/snapshot"
)

// The names of files.
const (
	DoctorText    = "doctor.txt"
	HostJSON      = "host.json"
	ResourcesJSON = "resources.json"
	ConfigTOML    = "config.toml"
)

// The limits of parts that processes make.
const (
	// deviceLimit is longer than the limit of the process that takes a snapshot.
	deviceLimit    = 15 * time.Second
	hostLimit      = 20 * time.Second
	resourcesLimit = 20 * time.Second
	configLimit    = 5 * time.Second
	// DoctorLimit is the limit of the doctor, which tries each device for some seconds.
	DoctorLimit = time.Minute
)

// Run runs a process for its output. With an error it returns what was printed until then.
type Run func(ctx context.Context) (printed []byte, err error)

// single returns a part with one file.
func single(d Description, stage int, limit time.Duration, file func(ctx context.Context) (File, error)) Part {
	return Part{
		Files: []Description{d}, Stage: stage, Limit: limit,
		Make: func(ctx context.Context) (map[string]File, error) {
			f, err := file(ctx)
			if err != nil {
				return nil, err
			}
			return map[string]File{d.Name: f}, nil
		},
	}
}

// Empty returns a part whose file is not there, and why.
func Empty(d Description, why error) Part {
	return single(d, stageRest, time.Second, func(context.Context) (File, error) { return File{}, why })
}

// DescribeDevice returns the file with the snapshot of a device.
func DescribeDevice(device string) Description {
	return Description{"devices/" + strings.ReplaceAll(device, "/", "_") + ".json", "a snapshot of " + device}
}

// Device returns the part with the snapshot of a device. take has the worker program take it.
func Device(device string, take Run, now func() time.Time) Part {
	return single(DescribeDevice(device), stageDevices, deviceLimit, func(ctx context.Context) (File, error) {
		begun := now()
		printed, err := take(ctx)
		doc := snapshot.New(device, begun, printed)
		if err != nil && len(doc.Calls) == 0 {
			return File{}, err
		}
		f := File{Lacks: doc.Missing()}
		if err != nil {
			f.Lacks = append(f.Lacks, err.Error())
		}
		f.Data, err = indented(doc)
		return f, err
	})
}

// InTime returns the parts in the order and at the times for a report that must end soon: all at once, the timeline first.
func InTime(parts []Part) []Part {
	for i := range parts {
		parts[i].Stage = stageDevices
	}
	return parts
}

// LeaveOutDoctor returns the part of the doctor for a report that must end soon.
func LeaveOutDoctor() Part {
	return Empty(Description{DoctorText, doctorAbout}, LeftOutError("it tries the devices, which takes longer than -timeout: rdma-events doctor"))
}

const doctorAbout = "what rdma-events doctor says"

// Doctor returns the part with what the doctor says. It comes last, since it tries the devices.
func Doctor(run Run, notes ...string) Part {
	d := Description{DoctorText, doctorAbout}
	return single(d, stageDoctor, DoctorLimit, func(ctx context.Context) (File, error) {
		text, failed := run(ctx)
		f := File{Data: Text(text), Notes: notes}
		switch {
		case len(text) == 0:
			return File{}, cmp.Or(failed, errors.New("it printed nothing"))
		case failed != nil:
			f.Lacks = []string{failed.Error()}
		}
		return f, nil
	})
}

// HostFacts returns the part with host.json, which run prints: a Host.
func HostFacts(run Run) Part {
	d := Description{HostJSON, "kernel, distribution, versions, the PCI functions of the devices with their links and errors"}
	return single(d, stageRest, hostLimit, func(ctx context.Context) (File, error) {
		var h Host
		if err := read(ctx, run, &h); err != nil {
			return File{}, err
		}
		data, err := indented(&h)
		return File{Data: data}, err
	})
}

// ResourceCounts returns the part with resources.json, which run prints: Resources.
func ResourceCounts(run Run) Part {
	d := Description{ResourcesJSON, "how many RDMA resources of each kind there are, without the names of processes"}
	return single(d, stageRest, resourcesLimit, func(ctx context.Context) (File, error) {
		var all Resources
		if err := read(ctx, run, &all); err != nil {
			return File{}, err
		}
		var f File
		for i := range all.Devices {
			if why := all.Devices[i].Error; why != "" {
				f.Lacks = append(f.Lacks, why)
			}
		}
		var err error
		f.Data, err = indented(&all)
		return f, err
	})
}

// read reads the JSON that run prints.
func read(ctx context.Context, run Run, into any) error {
	printed, err := run(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(printed, into); err != nil {
		return fmt.Errorf("read what was printed: %w", err)
	}
	return nil
}

// Config returns the part with the plugin's own configuration, without secrets. path is "" if
// none was named. known are the names of the plugin's options, see Redact.
func Config(path string, known []string) Part {
	d := Description{ConfigTOML, "the plugin's own sections of its configuration, without comments and secrets"}
	return single(d, stageRest, configLimit, func(context.Context) (File, error) {
		if path == "" {
			return File{}, LeftOutError("none was named: -config names it")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return File{}, fmt.Errorf("read configuration: %w", err)
		}
		r, err := Redact(string(text), known)
		if err != nil {
			return File{}, fmt.Errorf("%s: %w", path, err)
		}
		return File{
			Data: Text(r.Text), Removed: r.Removed,
			Notes: []string{"it is " + path + " before variables of the environment are put in"},
		}, nil
	})
}
