package agent

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/recorder"
)

// table is the name of the plugin's table in TOML.
const table = "inputs.rdma_events"

const methodNone = "none"

// option describes one key of the configuration: where its value goes, and the allowed values as text and as a
// predicate.
type option struct {
	key    string // relative to table
	target any    // pointer into a Config
	want   string
	valid  func() bool
}

// quoteNames joins names as in `"verbs" or "sim"`.
func quoteNames(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, " or ")
}

// options returns all options, each with its target in c.
func (c *Config) options() []option {
	return slices.Concat(c.deviceOptions(), c.pluginOptions(), c.Roles.options(), c.Probe.options(), c.Evidence.options(), c.Recorder.options(),
		c.Applications.options(), c.Fabric.options(), c.Sim.options())
}

// OptionNames returns the names of all options. An option in a section has the name of the section, as in
// "probe.interval".
func OptionNames() []string {
	var names []string
	for _, o := range append(new(Config).options(), new(ExpectedConfig).options()...) {
		names = append(names, o.key)
	}
	return names
}

func (c *Config) deviceOptions() []option {
	const (
		globList = `a list of globs on device names, as in ["mlx5_*"]`
		nameList = `a list of device names, as in ["mlx5_0"]`
		portList = `a list of ports from 1 to 255, as in ["mlx5_0:1"]`
	)
	return []option{
		{"devices", &c.Devices, globList, allValid(&c.Devices, isGlob)},
		{"devices_exclude", &c.DevicesExclude, globList, allValid(&c.DevicesExclude, isGlob)},
		{"ports", &c.Ports, portList, allValid(&c.Ports, isPort)},
		{"expect", &c.Expect, nameList, allValid(&c.Expect, isDevice)},
		{"expected_down", &c.ExpectedDown, portList, allValid(&c.ExpectedDown, isPort)},
		{"virtual_functions", &c.VirtualFunctions, `true or false`, anyValue},
	}
}

func (c *Config) pluginOptions() []option {
	return []option{
		{"backend", &c.Backend, quoteNames(BackendNames()), oneOf(&c.Backend, BackendNames()...)},
		{"worker_path", &c.WorkerPath, `the path of rdma-events-worker, or ""`, anyValue},
		{"max_event_points", &c.MaxEventPoints, `a number from 1 to 10000`, intWithin(&c.MaxEventPoints, 1, 10_000)},
		{
			"state_interval", &c.StateInterval, `"0s", or a duration from "100ms" to "24h"`,
			zeroOr(&c.StateInterval, durationWithin(&c.StateInterval, 100*time.Millisecond, 24*time.Hour)),
		},
		{
			"shutdown_timeout", &c.ShutdownTimeout, `a duration from "100ms" to "4s", because Telegraf waits 5 s`,
			durationWithin(&c.ShutdownTimeout, 100*time.Millisecond, 4*time.Second),
		},
	}
}

func (c *ProbeConfig) options() []option {
	return []option{
		{
			"probe.interval", &c.Interval, `"0s" for no probes, or a duration from "1ms" to "1h"`,
			zeroOr(&c.Interval, durationWithin(&c.Interval, time.Millisecond, time.Hour)),
		},
		{"probe.timeout", &c.Timeout, `a duration from "100us" to "1h"`, durationWithin(&c.Timeout, 100*time.Microsecond, time.Hour)},
		{
			"probe.method", &c.Method, `"auto", "rc_write", "ud_send", "flush" or "none"`,
			func() bool { return isMethod(c.Method) },
		},
		{
			"probe.vectors", &c.Vectors, `a list of different completion vectors, as in [0, 3], or [-1] for all`,
			func() bool { return areVectors(c.Vectors) },
		},
		{"probe.ack_batch", &c.AckBatch, `a number from 1 to 1024`, intWithin(&c.AckBatch, 1, 1024)},
		{"probe.gid_index", &c.GIDIndex, `a number from 0 to 255, or -1`, intWithin(&c.GIDIndex, -1, 255)},
		{"probe.pkey_index", &c.PKeyIndex, `a number from 0 to 65535, or -1`, intWithin(&c.PKeyIndex, -1, 65_535)},
		{"probe.window", &c.Window, `a duration from "10s" to "24h"`, durationWithin(&c.Window, 10*time.Second, 24*time.Hour)},
		{"probe.stages", &c.Stages, `true or false`, anyValue},
		{"probe.histogram", &c.Histogram, `true or false`, anyValue},
	}
}

func (c *EvidenceConfig) options() []option {
	return []option{
		{
			"evidence.gid_interval", &c.GIDInterval, `"0s", or a duration from "1s" to "24h"`,
			zeroOr(&c.GIDInterval, durationWithin(&c.GIDInterval, time.Second, 24*time.Hour)),
		},
		{
			"evidence.command_interval", &c.CommandInterval, `"0s", or a duration from "1s" to "24h"`,
			zeroOr(&c.CommandInterval, durationWithin(&c.CommandInterval, time.Second, 24*time.Hour)),
		},
		{
			"evidence.command_stuck", &c.CommandStuck, `a duration from "1s" to "10m"`,
			durationWithin(&c.CommandStuck, time.Second, 10*time.Minute),
		},
		{
			"evidence.snapshot_interval", &c.SnapshotInterval, `"0s", or a duration from "10s" to "24h"`,
			zeroOr(&c.SnapshotInterval, durationWithin(&c.SnapshotInterval, 10*time.Second, 24*time.Hour)),
		},
		{
			"evidence.ethtool", &c.Ethtool, `"link", "all" or "off"`,
			oneOf(&c.Ethtool, verbs.EthtoolLink.String(), verbs.EthtoolAll.String(), verbs.EthtoolOff.String()),
		},
	}
}

func (c *RecorderConfig) options() []option {
	return []option{
		{
			"recorder.directory", &c.Directory, `an absolute path, or ""`,
			func() bool { return c.Directory == "" || filepath.IsAbs(c.Directory) },
		},
		{"recorder.size_mib", &c.SizeMiB, `a number from 8 to 1024`, intWithin(&c.SizeMiB, recorder.MinSizeMiB, recorder.MaxSizeMiB)},
	}
}

func (c *ApplicationsConfig) options() []option {
	return []option{
		{"applications.objects", &c.Objects, `true or false`, anyValue},
		{
			"applications.by", &c.By, `["app"] or ["app", "unit"]`,
			func() bool { return slices.Equal(c.By, []string{"app"}) || slices.Equal(c.By, []string{"app", "unit"}) },
		},
		{"applications.max_series", &c.MaxSeries, `a number from 1 to 10000`, intWithin(&c.MaxSeries, 1, 10_000)},
		{"applications.events", &c.Events, `true or false`, anyValue},
		{
			"applications.hang_after", &c.HangAfter, `a duration from "1s" to "1h"`,
			durationWithin(&c.HangAfter, time.Second, time.Hour),
		},
		{"applications.hooks", &c.Hooks, quoteNames(tracer.AllHooks()), oneOf(&c.Hooks, tracer.AllHooks()...)},
		{"applications.tracer_path", &c.TracerPath, `the path of ` + tracer.ProgramName + `, or ""`, anyValue},
	}
}

func (c *SimConfig) options() []option {
	return []option{
		{"sim.profile", &c.Profile, `the name of a profile, as in "roce2"`, func() bool { return c.Profile != "" }},
		{"sim.scenario", &c.Scenario, `a file, the name of a built-in scenario, or ""`, anyValue},
		{"sim.seed", &c.Seed, `a number from 0`, func() bool { return c.Seed >= 0 }},
	}
}

// Validate checks each value, and then whether the values contradict each other. It does no I/O. The error is one line.
func (c *Config) Validate() error {
	for _, o := range c.options() {
		if !o.valid() {
			return notAllowed(o.key, o.target, o.want)
		}
	}
	if c.Probe.probing() && c.Probe.Timeout >= c.Probe.Interval {
		want := fmt.Sprintf("a duration below probe.interval, which is %q", time.Duration(c.Probe.Interval))
		return notAllowed("probe.timeout", &c.Probe.Timeout, want)
	}
	if err := c.validateFabric(); err != nil {
		return err
	}
	if err := c.validateSim(); err != nil {
		return err
	}
	return c.validateDevices()
}

// validateSim returns an error for an option of the simulator that has no effect, because the backend is another one.
// Default values are accepted: a sample.conf with every option enabled contains them.
func (c *Config) validateSim() error {
	values, defaults := c.Sim, DefaultConfig().Sim
	for i, o := range values.options() {
		if !c.Simulated() && !reflect.DeepEqual(o.target, defaults.options()[i].target) {
			return notAllowed(o.key, o.target, `backend = "sim" where this is set`)
		}
	}
	return nil
}

// validateDevices returns an error if options about devices contradict each other. For example, a device that is
// expected and excluded at the same time would be reported as missing for ever.
func (c *Config) validateDevices() error {
	if len(c.DevicesExclude) > 0 && excludesAll(c.Devices, c.DevicesExclude) {
		return notAllowed("devices_exclude", &c.DevicesExclude, "globs that leave some of devices, which is "+tomlLiteral(&c.Devices))
	}
	passes, err := c.globFilter()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(c.Ports, func(port string) bool { return !passes(devicePart(port)) }) {
		return notAllowed("ports", &c.Ports, "only ports of devices that devices and devices_exclude let in")
	}
	wants, err := c.DeviceFilter()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(c.Expect, func(device string) bool { return !wants(device) }) {
		return notAllowed("expect", &c.Expect, "only devices that devices, devices_exclude and ports let in")
	}
	for i := range c.Expected {
		if err := c.Expected[i].validate(c, wants); err != nil {
			return err
		}
	}
	return nil
}

// notAllowed returns the error for a value that is not allowed, on one line.
func notAllowed(key string, value any, want string) error {
	return fmt.Errorf("%s: %s = %s is not allowed: want %s", table, key, tomlLiteral(value), want)
}

// tomlLiteral returns a value in TOML syntax, on one line.
func tomlLiteral(value any) string {
	if d, ok := value.(*Duration); ok {
		return strconv.Quote(time.Duration(*d).String())
	}
	text, err := json.Marshal(value)
	if err != nil {
		return strconv.Quote(fmt.Sprint(value))
	}
	return string(text)
}

func anyValue() bool { return true }

func oneOf(value *string, allowed ...string) func() bool {
	return func() bool { return slices.Contains(allowed, *value) }
}

func intWithin(value *int, least, greatest int) func() bool {
	return func() bool { return *value >= least && *value <= greatest }
}

func durationWithin(value *Duration, least, greatest time.Duration) func() bool {
	return func() bool { return time.Duration(*value) >= least && time.Duration(*value) <= greatest }
}

func zeroOr(value *Duration, valid func() bool) func() bool {
	return func() bool { return *value == 0 || valid() }
}

func allValid(values *[]string, valid func(string) bool) func() bool {
	return func() bool {
		return !slices.ContainsFunc(*values, func(v string) bool { return !valid(v) })
	}
}

// isGlob reports whether the pattern compiles and can match a device. An empty pattern and the bare name of a driver
// match no device.
func isGlob(pattern string) bool {
	_, err := compileGlobs([]string{pattern})
	return pattern != "" && err == nil && !lacksIndex(pattern)
}

// isDevice reports whether a device can have this name. The kernel limits names to IB_DEVICE_NAME_MAX bytes, and they
// must be valid names of directories in sysfs.
func isDevice(name string) bool {
	return !lacksIndex(name) && name != "" && len(name) < 64 && !strings.ContainsAny(name, "/: \t\n*?[]{}")
}

// IsDevice reports whether a device can have this name.
func IsDevice(name string) bool { return isDevice(name) }

// devicePart returns the device of a port, as "mlx5_0" of "mlx5_0:1".
func devicePart(port string) string {
	device, _, _ := strings.Cut(port, ":")
	return device
}

func isPort(text string) bool {
	_, _, ok := splitPort(text)
	return ok
}

// splitPort splits a port as in "mlx5_0:1". ok is false if the text is not a valid port.
func splitPort(text string) (device string, port int, ok bool) {
	device, number, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(number, 10, 8)
	return device, int(n), isDevice(device) && err == nil && n > 0
}

func isMethod(name string) bool {
	_, ok := verbs.ParseMethod(name)
	return ok
}

func areVectors(vectors []int) bool {
	if slices.Equal(vectors, []int{allVectors}) {
		return true
	}
	sorted := slices.Sorted(slices.Values(vectors))
	return len(sorted) > 0 && sorted[0] >= 0 && len(slices.Compact(sorted)) == len(vectors)
}
