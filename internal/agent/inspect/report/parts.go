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

// Time limits of parts that processes make.
const (
	// deviceTimeout is longer than the time limit of the process that takes a snapshot.
	deviceTimeout    = 15 * time.Second
	hostTimeout      = 20 * time.Second
	resourcesTimeout = 20 * time.Second
	configTimeout    = 5 * time.Second
	// DoctorTimeout is the time limit of the doctor, which tries each device for some seconds.
	DoctorTimeout = time.Minute
)

// RunProcess runs a process and returns its output. If it returns an error, printed is the output until then.
type RunProcess func(ctx context.Context) (printed []byte, err error)

// newFilePart returns a part with one file.
func newFilePart(d Description, stage int, limit time.Duration, file func(ctx context.Context) (File, error)) Part {
	return Part{
		Files: []Description{d}, Stage: stage, Timeout: limit,
		Make: func(ctx context.Context) (map[string]File, error) {
			f, err := file(ctx)
			if err != nil {
				return nil, err
			}
			return map[string]File{d.Name: f}, nil
		},
	}
}

// MissingPart returns a part whose file is missing for the given reason.
func MissingPart(d Description, why error) Part {
	return newFilePart(d, stageRest, time.Second, func(context.Context) (File, error) { return File{}, why })
}

// DescribeDevice returns the description of the file with the snapshot of a device.
func DescribeDevice(device string) Description {
	return Description{"devices/" + strings.ReplaceAll(device, "/", "_") + ".json", "a snapshot of " + device}
}

// Device returns the part with the snapshot of a device. take runs the worker program, which takes the snapshot.
func Device(device string, take RunProcess, now func() time.Time) Part {
	return newFilePart(DescribeDevice(device), stageDevices, deviceTimeout, func(ctx context.Context) (File, error) {
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
		f.Data, err = indentJSON(doc)
		return f, err
	})
}

// Hurry makes all parts run at the same time, for a report that must end soon. The timeline starts first.
func Hurry(parts []Part) []Part {
	for i := range parts {
		parts[i].Stage = stageDevices
	}
	return parts
}

// OmittedDoctor returns the part of the doctor for a report that must end soon, without its result.
func OmittedDoctor() Part {
	return MissingPart(Description{DoctorText, doctorAbout}, OmittedError("it tries the devices, which takes longer than -timeout: rdma-events doctor"))
}

const doctorAbout = "what rdma-events doctor says"

// Doctor returns the part with the result of the doctor. It is made last, because the doctor tries the devices.
func Doctor(run RunProcess, notes ...string) Part {
	d := Description{DoctorText, doctorAbout}
	return newFilePart(d, stageDoctor, DoctorTimeout, func(ctx context.Context) (File, error) {
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

// HostFacts returns the part with host.json. run prints a Host.
func HostFacts(run RunProcess) Part {
	d := Description{HostJSON, "kernel, distribution, versions, the PCI functions of the devices with their links and errors"}
	return newFilePart(d, stageRest, hostTimeout, func(ctx context.Context) (File, error) {
		var h Host
		if err := readJSON(ctx, run, &h); err != nil {
			return File{}, err
		}
		data, err := indentJSON(&h)
		return File{Data: data}, err
	})
}

// ResourceCounts returns the part with resources.json. run prints a Resources.
func ResourceCounts(run RunProcess) Part {
	d := Description{ResourcesJSON, "how many RDMA resources of each kind there are, without the names of processes"}
	return newFilePart(d, stageRest, resourcesTimeout, func(ctx context.Context) (File, error) {
		var all Resources
		if err := readJSON(ctx, run, &all); err != nil {
			return File{}, err
		}
		var f File
		for i := range all.Devices {
			if why := all.Devices[i].Error; why != "" {
				f.Lacks = append(f.Lacks, why)
			}
		}
		var err error
		f.Data, err = indentJSON(&all)
		return f, err
	})
}

// readJSON decodes the JSON that run prints.
func readJSON(ctx context.Context, run RunProcess, into any) error {
	printed, err := run(ctx)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(printed, into); err != nil {
		return fmt.Errorf("read what was printed: %w", err)
	}
	return nil
}

// Config returns the part with the plugin's own configuration, without secrets. path is "" if no configuration was
// named. known contains the names of the plugin's options, see Redact.
func Config(path string, known []string) Part {
	d := Description{ConfigTOML, "the plugin's own sections of its configuration, without comments and secrets"}
	return newFilePart(d, stageRest, configTimeout, func(context.Context) (File, error) {
		if path == "" {
			return File{}, OmittedError("none was named: -config names it")
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
