package report

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/sysfs"
)

// Schema is the version of the format of host.json and resources.json. It changes when a member is removed or changes
// its meaning.
const Schema = 1

// Programs contains the versions of the programs and libraries. "" means unknown.
type Programs struct {
	Plugin  string `json:"rdma_events"`
	Worker  string `json:"rdma_events_worker,omitempty"`
	Verbs   string `json:"libibverbs,omitempty"`      // the release of rdma-core
	Library string `json:"libibverbs_file,omitempty"` // the file that the worker's loader finds
}

// Host is the content of host.json.
type Host struct {
	Schema       int               `json:"schema"`
	Time         time.Time         `json:"time"`
	Name         string            `json:"host"`
	Booted       time.Time         `json:"booted,omitzero"` // wall clock
	Kernel       inspect.Kernel    `json:"kernel"`
	Distribution map[string]string `json:"distribution"` // of os-release(5)
	Programs     Programs          `json:"versions"`
	Packages     []string          `json:"packages"` // of rdma-core, as "libibverbs1 44.0-2"
	Modules      []Module          `json:"modules"`
	Devices      []HostDevice      `json:"devices"`
}

// Module is a loaded module of the kernel (sysfs, /sys/module).
type Module struct {
	Name       string `json:"module"`
	Version    string `json:"version,omitempty"` // mostly of modules that are not the kernel's own
	SrcVersion string `json:"srcversion,omitempty"`
	Taint      string `json:"taint,omitempty"` // "O": not of the kernel's source
}

// HostDevice is an RDMA device with its PCI function.
type HostDevice struct {
	Name     string    `json:"device"`
	Driver   string    `json:"driver,omitempty"`
	Provider string    `json:"provider,omitempty"` // the library that drives it, as in "mlx5 44.0"
	PCI      *Function `json:"pci,omitempty"`      // nil: it has no PCI function
}

// Function is a PCI function as sysfs shows it (Documentation/ABI/testing/sysfs-bus-pci).
type Function struct {
	Address string            `json:"address"`
	Attrs   map[string]string `json:"attributes"`
	AER     map[string]uint64 `json:"aer,omitempty"` // by kind and name, as "correctable RxErr"; absent: not reported
}

// functionAttrs are the attributes of a PCI function that say what it is and how its link is.
var functionAttrs = []string{
	"vendor", "device", "subsystem_vendor", "subsystem_device", "revision", "class", "numa_node", "power_state",
	"current_link_speed", "current_link_width", "max_link_speed", "max_link_width",
}

// HostQuery holds the facts about a host that ReadHost copies, and the devices, modules and packages that it describes.
type HostQuery struct {
	Time     time.Time
	Name     string // of the host
	Kernel   inspect.Kernel
	Programs Programs
	Packages []string
	Devices  []DeviceQuery
	Modules  []string // beside the devices' drivers
}

// DeviceQuery is a device of a HostQuery.
type DeviceQuery struct{ Name, Driver, Provider, PCI string }

// ReadHost reads what is known of a host from its file system. It sends no command to a device.
// Reading the link of a PCI function may wait for the function.
func ReadHost(root fs.FS, q HostQuery) *Host {
	r := hostFiles{inspect.Files{FS: root}}
	h := &Host{
		Schema: Schema, Time: q.Time.UTC(), Name: q.Name, Kernel: q.Kernel, Programs: q.Programs,
		Booted:   r.bootTime(),
		Packages: orEmpty(q.Packages), Distribution: r.Distribution(), Modules: []Module{}, Devices: []HostDevice{},
	}
	names := slices.Clone(q.Modules)
	for _, d := range q.Devices {
		one := HostDevice{Name: d.Name, Driver: d.Driver, Provider: d.Provider}
		if d.PCI != "" {
			one.PCI = r.readFunction(d.PCI)
		}
		h.Devices = append(h.Devices, one)
		module, _, _ := strings.Cut(d.Driver, ".") // a driver on the auxiliary bus has the name of its module before a dot
		names = append(names, module)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if m, ok := r.readModule(name); ok {
			h.Modules = append(h.Modules, m)
		}
	}
	return h
}

// hostFiles reads the files of the host from which host.json is made.
type hostFiles struct{ inspect.Files }

// bootTime returns when the kernel started (btime of proc_stat(5)), or the zero Time if it is unknown.
func (f hostFiles) bootTime() time.Time {
	for line := range strings.Lines(f.ReadText("proc/stat")) {
		if text, ok := strings.CutPrefix(line, "btime "); ok {
			if s, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(s, 0).UTC()
			}
		}
	}
	return time.Time{}
}

func (f hostFiles) readModule(name string) (Module, bool) {
	if name == "" || strings.Contains(name, "/") {
		return Module{}, false
	}
	dir := path.Join("sys/module", name)
	if !f.Exists(dir) {
		return Module{}, false
	}
	return Module{name, f.ReadText(dir, "version"), f.ReadText(dir, "srcversion"), f.ReadText(dir, "taint")}, true
}

func (f hostFiles) readFunction(address string) *Function {
	dir := path.Join("sys/bus/pci/devices", address)
	one := &Function{Address: address, Attrs: map[string]string{}}
	for _, name := range functionAttrs {
		if text := f.ReadText(dir, name); text != "" {
			one.Attrs[name] = text
		}
	}
	one.AER = sysfs.ParseAER(func(file string) string { return f.ReadText(dir, file) })
	return one
}

// indentJSON returns a value as indented JSON.
func indentJSON(v any) (Text, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return append(text, '\n'), nil
}

func orEmpty(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}
