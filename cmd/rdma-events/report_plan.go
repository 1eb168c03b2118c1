package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/agent/inspect/report"
	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/process"
)

// reportPlan holds the parts of a report and the resources that they use.
type reportPlan struct {
	parts     []report.Part
	simulated bool

	config       agent.Config
	configErr    error                  // error of the configuration; if set, the excluded devices are unknown
	quotesConfig bool                   // the doctor may quote the configuration, because it has no secrets
	askedDevices []string               // devices of which snapshots are taken
	worker       *inspect.WorkerQueries // nil if workerErr is set
	workerErr    error
	self         *os.File
	closers      []func() error
}

// close releases the resources of the parts.
func (p *reportPlan) close() {
	for _, f := range p.closers {
		_ = f() // no data can be lost
	}
}

// newPlan returns the plan for the flags. The files of the timeline are created in the directory spools.
func (o *reportFlags) newPlan(ctx context.Context, spools string) (_ *reportPlan, err error) {
	p := &reportPlan{config: agent.DefaultConfig()}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if o.config != "" {
		if o.config, err = filepath.Abs(o.config); err != nil {
			return nil, err
		}
		if err = p.readConfig(o.config); err != nil {
			return nil, err
		}
	}
	p.simulated = p.config.Simulated()
	// This name refers to the running program even if its file has been replaced.
	if p.self, err = os.OpenFile("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open this program: %w", err)
	}
	p.closers = append(p.closers, p.self.Close)
	p.openWorker()
	devices := p.deviceParts(ctx, o)
	records, err := p.openTimeline(o, spools)
	if err != nil {
		return nil, err
	}
	doctor := p.doctorPart(o.config)
	if o.timeout > 0 {
		doctor = report.OmittedDoctor()
	}
	p.parts = append([]report.Part{records, doctor}, devices...)
	p.parts = append(p.parts, p.hostPart(), p.resourcesPart(), report.Config(o.config, agent.OptionNames()), p.kernelPart(o.device))
	if o.timeout > 0 {
		p.parts = report.Hurry(p.parts)
	}
	return p, nil
}

// readConfig reads the configuration. If it is invalid, configErr is set. readConfig returns an error only if it cannot
// read the file.
func (p *reportPlan) readConfig(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	c, err := loadConfig(path)
	if err == nil {
		_, err = c.DeviceFilter()
	}
	if p.configErr = err; err == nil {
		p.config = c
	}
	r, err := report.Redact(string(text), agent.OptionNames())
	p.quotesConfig = p.configErr == nil && err == nil && len(r.Removed) == 0
	return nil
}

func (p *reportPlan) openWorker() {
	var path string
	if path, p.workerErr = workerPath(&p.config); p.workerErr == nil {
		p.worker, p.workerErr = inspect.OpenWorkerQueries(path)
	}
	if p.workerErr != nil {
		return
	}
	p.closers = append(p.closers, p.worker.Close)
	p.worker.Request = p.config.Request()
	p.worker.WorkerFiles = p.config.WorkerFiles(p.worker.Request)
}

// deviceParts returns the parts with the snapshots of the devices that the configuration watches, and why other devices
// have none.
func (p *reportPlan) deviceParts(ctx context.Context, o *reportFlags) []report.Part {
	every := report.Description{Name: "devices", About: "a snapshot of each device"}
	here, err := p.findDevices(ctx)
	if err != nil {
		return []report.Part{report.MissingPart(every, err)}
	}
	var parts []report.Part
	var excluded []string
	named := false
	released := func(verbs.Found) string { return "" }
	if !p.simulated {
		released = releasedUntilFunc()
	}
	for _, d := range here {
		if o.device != "" && d.Name != o.device {
			continue
		}
		named = true
		if until := released(d); until != "" {
			parts = append(parts, report.MissingPart(report.DescribeDevice(d.Name), report.OmittedError(until+": it is not opened; rdma-events resume ends that")))
			continue
		}
		asked := p.configErr == nil && p.config.Watches(d, here) || o.device != "" && (o.config == "" || p.configErr != nil)
		if !asked {
			excluded = append(excluded, d.Name)
			continue
		}
		p.askedDevices = append(p.askedDevices, d.Name)
		parts = append(parts, report.Device(d.Name, p.takeSnapshot(d.Name), time.Now))
	}
	switch {
	case !named && o.device != "":
		return []report.Part{report.MissingPart(report.DescribeDevice(o.device), errors.New("this host has no RDMA device of that name now"))}
	case !named:
		return []report.Part{report.MissingPart(every, errors.New("this host has no RDMA device now"))}
	case len(excluded) > 0 && p.configErr != nil:
		parts = append(parts, report.MissingPart(every, fmt.Errorf("%s: not asked, since %s cannot be used, which may exclude them "+
			"(rdma-events check -config says why); -device asks one", strings.Join(excluded, ", "), o.config)))
	case len(excluded) > 0:
		parts = append(parts, report.MissingPart(every, report.OmittedError(strings.Join(excluded, ", ")+": the configuration does not watch them")))
	}
	return parts
}

// findDevices returns the devices that are present. It sends no request to the kernel's RDMA subsystem, which may hang.
func (p *reportPlan) findDevices(ctx context.Context) ([]verbs.Found, error) {
	if p.simulated {
		ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
		defer cancel()
		found, err := p.config.FindDevices(ctx)
		if err != nil { // the original error quotes the configuration
			err = errors.New("the devices cannot be simulated: rdma-events check -config says why")
		}
		return found, err
	}
	fs := sysfs.New("/sys")
	names, err := fs.Devices()
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var found []verbs.Found
	for _, name := range names {
		found = append(found, identifyDevice(name))
	}
	return found, nil
}

func (p *reportPlan) takeSnapshot(device string) report.RunProcess {
	return func(ctx context.Context) ([]byte, error) {
		if p.worker == nil {
			return nil, p.workerErr
		}
		return p.worker.AskEvidence(ctx, device)
	}
}

// openTimeline creates the files for the part with the recorded events in a directory, and returns that part.
func (p *reportPlan) openTimeline(o *reportFlags, dir string) (report.Part, error) {
	const most = 64 << 20
	t := report.TimelineOptions{
		Directory: cmp.Or(o.directory, p.config.Recorder.Directory, defaultRecords), Device: o.device, MaxBytes: most,
		Since: o.from, Until: o.to,
	}
	var err error
	if t.Text, err = report.NewSpool(dir); err != nil {
		return report.Part{}, err
	}
	if t.JSONL, err = report.NewSpool(dir); err != nil {
		return report.Part{}, errors.Join(err, t.Text.Close())
	}
	// The spools are not closed: a part that was left behind may still write them.
	return report.Timeline(t), nil
}

// doctorPart returns the part of the doctor. The doctor gets no configuration that is invalid or contains secrets,
// because its output may quote it.
func (p *reportPlan) doctorPart(config string) report.Part {
	args := []string{"doctor"}
	var notes []string
	switch {
	case config == "":
	case p.quotesConfig:
		args = append(args, "-config", config)
	default:
		notes = []string{"it was run without -config, since it may quote what it reads: " + config + " cannot be used, or has secrets"}
	}
	return report.Doctor(p.run(report.DoctorTimeout-time.Second, args...), notes...)
}

func (p *reportPlan) hostPart() report.Part {
	return report.HostFacts(func(ctx context.Context) ([]byte, error) {
		q := hostQuery{Programs: report.Programs{Plugin: buildVersion()}}
		if !p.simulated {
			q.Devices = p.askedDevices
		}
		if p.worker != nil {
			// Unknown versions are absent; the doctor tells why.
			q.Programs.Worker, _ = p.worker.AskVersion(ctx)
			q.Programs.Library, _ = p.worker.AskLibrary(ctx)
		}
		return p.part(ctx, "host", q)
	})
}

func (p *reportPlan) resourcesPart() report.Part {
	return report.ResourceCounts(func(ctx context.Context) ([]byte, error) {
		switch {
		case p.simulated:
			return nil, report.OmittedError("the kernel has no resources of simulated devices")
		case len(p.askedDevices) == 0:
			return nil, report.OmittedError("no device is asked")
		}
		return p.part(ctx, "resources", p.askedDevices)
	})
}

func (p *reportPlan) kernelPart(device string) report.Part {
	return report.Kernel(report.KernelOptions{
		Names: func() []string {
			switch {
			case p.simulated:
				return nil
			case len(p.askedDevices) > 0:
				return report.KernelNames("/sys", p.askedDevices)
			case device != "":
				return append([]string{device}, drivers.WithCompanions()...)
			}
			return drivers.WithCompanions() // a driver's lines may tell why there is no device
		},
		Open: report.OpenKernelLog, Restricted: report.IsRestricted, Clocks: clock.Both,
	})
}

// partLimit is the time limit for a process that prints a part.
const partLimit = 10 * time.Second

// part runs this program in another process to print a part, because that may hang in the kernel.
func (p *reportPlan) part(ctx context.Context, name string, query any) ([]byte, error) {
	text, err := json.Marshal(query)
	if err != nil {
		return nil, fmt.Errorf("write query: %w", err)
	}
	return p.run(partLimit, "report", partArgument, name, string(text))(ctx)
}

// run returns a function that runs this program in another process. If the program has printed something, its exit
// status is no error.
func (p *reportPlan) run(limit time.Duration, args ...string) report.RunProcess {
	return func(ctx context.Context) ([]byte, error) {
		o := process.Once{Exe: p.self, Name: "rdma-events", Args: args, Env: os.Environ(), Limit: limit}
		a, err := o.Run(ctx)
		switch {
		case err != nil:
			return a.Stdout, fmt.Errorf("run rdma-events %s: %w", args[0], err)
		case len(a.Stdout) == 0:
			return nil, errors.New(cmp.Or(a.Stderr, fmt.Sprintf("rdma-events %s printed nothing, exit status %d", args[0], a.Status)))
		}
		return a.Stdout, nil
	}
}
