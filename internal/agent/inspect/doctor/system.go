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

// System is the host as the checks see it. NewSystem returns the real one.
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
	// NodeAbsence returns why a device node such as "uverbs0" has no file, as hotplug.NodeFiles does.
	NodeAbsence func(node string) hotplug.Absence
	// Addressed reports whether a network device is up and has an address that is not link-local.
	Addressed func(netdev string) bool
	// CarriesDefaultRoute reports whether a default route of the host goes over a network device. Nil: none does.
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
	// Applications has the tracer examined whatever the plugin's configuration says.
	Applications bool

	// Records is the recorder's directory if the plugin's configuration names none: that
	// which the package's unit file has systemd make.
	Records string

	// Released returns until when a device is released, as in "released until 12:00", and "" for one that is not. Nil: none is.
	Released func(device string) string

	// Config is the path of Telegraf's or the plugin's configuration; "" means that
	// none is checked. Plugin reads the plugin's configuration.
	Config string
	Plugin func(path string) (PluginConfig, error)
}

// Worker is an opened worker program. All but Close may be called concurrently.
type Worker interface {
	// AskVersion runs the program and returns the version that the program reports.
	AskVersion(ctx context.Context) (string, error)
	// AskLibrary runs the program and returns the file of libibverbs that the program's loader finds.
	AskLibrary(ctx context.Context) (string, error)
	// AskLink asks the driver of a network device about its link, in a process of its own: the
	// kernel's RTNL lock may keep that for long. It blocks for some seconds at most.
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
	Watches      func(device string) bool           // nil means all devices; VirtualFunctions leaves out some of them
	WatchesPort  func(device string, port int) bool // of a device that is watched; nil means all ports
	ExpectedDown func(device string, port int) bool // nil means no port
	// Expected is which devices must be there. ExpectedRate returns the least rate in Gbit/s that a port must have, 0 for any; nil means
	// any. Role returns the role that the configuration gives a port, "" if it gives none; nil means none.
	Expected     Expected
	ExpectedRate func(device string, port int) float64
	Role         func(device string, port int) string
	// VirtualFunctions is which virtual and scalable functions are watched.
	VirtualFunctions verbs.VirtualFunctions
	// Vectors returns how many completion vectors are probed on each port of a
	// device that has that many; has is 0 if that is unknown. Nil means one vector.
	Vectors func(has int) int
	Fabric  *FabricConfig // nil: other hosts are not probed
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
	s.Types, s.NodeAbsence, s.Addressed = hotplug.QueryTypes, hotplug.NodeFiles{}.Absence, addressed
	s.FileCaps = fileCaps
	s.KernelLog = func() error {
		f, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
	return s
}

// newSystem returns a System that has only its file systems set.
func newSystem(root string) *System {
	return &System{
		Root: os.DirFS(root), Sysfs: sysfs.New(filepath.Join(root, "sys")), Now: time.Now,
		Types: func() (map[string]hotplug.Type, error) { return nil, nil }, Addressed: func(string) bool { return false },
		NodeAbsence: func(string) hotplug.Absence { return hotplug.AbsentNot },
	}
}

// addressed implements System.Addressed.
func addressed(netdev string) bool {
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

// line returns a command of the table as this user has to type it.
func (s *System) line(c advice.Command, values ...string) advice.Line {
	return c.Line(values...).For(s.UID)
}

// editConfig returns the command that opens the configuration in an editor.
func (s *System) editConfig() advice.Line {
	return s.line(advice.EditFile, cmp.Or(s.Config, "/etc/telegraf/rdma_events.conf"))
}

// install returns the command that installs libibverbs and its providers.
func (s *System) install() advice.Line {
	distribution := s.files().Distribution()
	names := strings.Fields(distribution["id"] + " " + distribution["id_like"])
	is := func(ids ...string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(names, id) })
	}
	switch {
	case is("rhel", "fedora", "centos"):
		return s.line(advice.InstallOnFedora)
	case is("suse", "opensuse"):
		return s.line(advice.InstallOnSUSE)
	}
	return s.line(advice.InstallOnDebian)
}
