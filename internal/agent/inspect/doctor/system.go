package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
	"rdma_events/internal/device/ethtool"
	"rdma_events/internal/device/hotplug"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

// System provides the facts about the host that the checks need. NewSystem returns the real host.
type System struct {
	Version string // of this program
	Root    fs.FS  // the root file system
	Sysfs   sysfs.FS
	UID     int
	Now     func() time.Time

	LockedMemory uint64 // soft RLIMIT_MEMLOCK, bytes
	OpenFiles    uint64 // soft RLIMIT_NOFILE

	// OpenNode opens a device node for reading and writing, and closes it.
	OpenNode func(path string) error
	// Uevents subscribes to the kernel's uevents and unsubscribes again.
	Uevents func() error
	// Types returns the kernel's types of devices by name, as hotplug.QueryTypes does.
	Types func() (map[string]hotplug.Type, error)
	// NodeAbsence returns why a device node such as "uverbs0" has no file. See hotplug.NodeFiles.
	NodeAbsence func(node string) hotplug.Absence
	// HasAddress reports whether a network device is up and has an address that is not link-local.
	HasAddress func(netdev string) bool
	// CarriesDefaultRoute reports whether a default route of the host uses a network device. If it is nil, none does.
	CarriesDefaultRoute func(netdev string) bool
	// KernelLog opens the kernel's log for reading, and closes it.
	KernelLog func() error

	// OpenWorker opens the worker program at a path. The path is WorkerPath if the
	// plugin's configuration names none.
	OpenWorker func(path string) (Worker, error)
	WorkerPath string

	// OpenTracer opens the tracer program at a path. The path is TracerPath if the plugin's
	// configuration names none. FileCaps returns the extended attribute with a file's
	// capabilities, nil if it has none.
	OpenTracer func(path string) (Tracer, error)
	TracerPath string
	FileCaps   func(path string) ([]byte, error)
	// Applications makes the doctor examine the tracer even if the plugin's configuration does not use it.
	Applications bool

	// Records is the recorder's directory if the plugin's configuration sets none: the one that systemd creates for the
	// package's unit file.
	Records string

	// Released returns until when a device is released, as in "released until 12:00", or "" if it is not released. If
	// it is nil, no device is released.
	Released func(device string) string

	// Config is the path of Telegraf's or the plugin's configuration. If it is "", no configuration is checked. Plugin
	// reads the plugin's configuration.
	Config string
	Plugin func(path string) (PluginConfig, error)
}

// Worker is an opened worker program. All methods except Close may be called concurrently.
type Worker interface {
	// AskVersion runs the program and returns the version that the program reports.
	AskVersion(ctx context.Context) (string, error)
	// AskLibrary runs the program and returns the file of libibverbs that the program's loader finds.
	AskLibrary(ctx context.Context) (string, error)
	// AskLink asks the driver of a network device about its link, in a separate process, because the kernel's RTNL lock
	// may block the call for long. AskLink blocks for a few seconds at most.
	AskLink(ctx context.Context, netdev string) (ethtool.Link, error)
	// Try opens a device and tries a probe method on all of its ports. It blocks
	// for some seconds at most.
	Try(ctx context.Context, device string, m verbs.Method) inspect.Trial
	// Close must be called after all other calls have returned.
	Close() error
}

// PluginConfig is the part of the plugin's configuration that the checks use.
type PluginConfig struct {
	Simulated    bool
	WorkerPath   string                             // "" means the default
	Events       bool                               // applications.events
	TracerPath   string                             // "" means the default
	Records      string                             // recorder.directory
	Watches      func(device string) bool           // nil means all devices; VirtualFunctions excludes some
	WatchesPort  func(device string, port int) bool // port of a watched device; nil means all ports
	ExpectedDown func(device string, port int) bool // nil means no port
	// Expected lists the devices that must be present. ExpectedRate returns the minimum rate in Gbit/s that a port must
	// have, or 0; nil means 0 for all ports. Role returns the configured role of a port, or ""; nil means no roles.
	Expected     Expected
	ExpectedRate func(device string, port int) float64
	Role         func(device string, port int) string
	// VirtualFunctions tells which virtual and scalable functions are watched.
	VirtualFunctions verbs.VirtualFunctions
	// Vectors returns the number of completion vectors that are probed on each port of a device with has vectors; has
	// is 0 if that is unknown. Nil means one vector.
	Vectors func(has int) int
	Fabric  *FabricConfig // nil if probes between hosts are off
}

// NewSystem returns the host that this process runs on.
func NewSystem() *System {
	s := newSystem("/")
	s.UID = os.Geteuid()
	s.LockedMemory, s.OpenFiles = softLimit(unix.RLIMIT_MEMLOCK), softLimit(unix.RLIMIT_NOFILE)
	s.OpenNode = func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
	s.Uevents = func() error {
		source, err := hotplug.SubscribeUevents()
		if err != nil {
			return err
		}
		return source.Close()
	}
	s.Types, s.NodeAbsence, s.HasAddress = hotplug.QueryTypes, hotplug.NodeFiles{}.Absence, hasAddress
	s.FileCaps = readFileCaps
	s.KernelLog = func() error {
		f, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
	return s
}

// newSystem returns a System in which only the file systems are set.
func newSystem(root string) *System {
	return &System{
		Root: os.DirFS(root), Sysfs: sysfs.New(filepath.Join(root, "sys")), Now: time.Now,
		Types: func() (map[string]hotplug.Type, error) { return nil, nil }, HasAddress: func(string) bool { return false },
		NodeAbsence: func(string) hotplug.Absence { return hotplug.AbsentNot },
	}
}

// hasAddress implements System.HasAddress.
func hasAddress(netdev string) bool {
	i, err := net.InterfaceByName(netdev)
	if err != nil || i.Flags&net.FlagUp == 0 {
		return false
	}
	all, err := i.Addrs()
	return err == nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		prefix, ok := a.(*net.IPNet)
		return ok && prefix.IP.IsGlobalUnicast()
	})
}

func softLimit(resource int) uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return 0 // cannot happen for a known resource
	}
	return l.Cur
}

// files reads small files of the host.
func (s *System) files() inspect.Files { return inspect.Files{FS: s.Root} }

func (s *System) read(elem ...string) string { return s.files().ReadText(elem...) }

func (s *System) exists(elem ...string) bool { return s.files().Exists(elem...) }

func (s *System) list(elem ...string) []string { return s.files().List(elem...) }

// command returns a command of the table as this user must type it.
func (s *System) command(c advice.Command, values ...string) advice.Line {
	return c.Line(values...).For(s.UID)
}

// editConfig returns the command that opens the configuration in an editor.
func (s *System) editConfig() advice.Line {
	return s.command(advice.EditFile, cmp.Or(s.Config, "/etc/telegraf/rdma_events.conf"))
}

// installLibrary returns the command that installs libibverbs and its providers.
func (s *System) installLibrary() advice.Line {
	distribution := s.files().Distribution()
	names := strings.Fields(distribution["id"] + " " + distribution["id_like"])
	is := func(ids ...string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(names, id) })
	}
	switch {
	case is("rhel", "fedora", "centos"):
		return s.command(advice.InstallOnFedora)
	case is("suse", "opensuse"):
		return s.command(advice.InstallOnSUSE)
	}
	return s.command(advice.InstallOnDebian)
}
