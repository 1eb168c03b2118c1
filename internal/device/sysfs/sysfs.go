package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// FS reads attributes of RDMA devices from sysfs, in particular those that
// libibverbs does not have. It holds no state and no descriptor and may be used
// concurrently. It opens no device. Reading an attribute can call the device's
// driver, as ibv_query_port does.
type FS struct{ root string }

// New returns the FS of a sysfs that is mounted at root, normally "/sys".
func New(root string) FS { return FS{root} }

// Devices returns the names of all RDMA devices, sorted. Without RDMA in the kernel
// it returns none and no error. It asks no driver.
func (s FS) Devices() ([]string, error) {
	return listDir(filepath.Join(s.root, "class/infiniband"))
}

// Nodes returns the uverbs nodes ("uverbs0") by device name. It leaves out a device without a
// node: ib_uverbs is not loaded, or the device is being removed.
// If it cannot read the device of a node, Nodes returns the other nodes and an error. Nodes asks
// no driver.
func (s FS) Nodes() (map[string]string, error) {
	class := filepath.Join(s.root, "class/infiniband_verbs")
	names, err := listDir(class)
	if err != nil {
		return nil, err
	}
	nodes := make(map[string]string, len(names))
	var unread error
	for _, node := range names {
		// The class also has a plain file, abi_version, without an ibdev (ENOTDIR). Reading ibdev of a removed
		// device fails with ENODEV (ibdev_show in drivers/infiniband/core/uverbs_main.c).
		device, err := os.ReadFile(filepath.Join(class, node, "ibdev"))
		switch {
		case err == nil:
			nodes[strings.TrimSpace(string(device))] = node
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ENODEV):
			unread = fmt.Errorf("read the device of a node: %w", err)
		}
	}
	delete(nodes, "")
	return nodes, unread
}

// HasNodeClass reports whether ib_uverbs is loaded, which makes the class of the nodes.
func (s FS) HasNodeClass() bool { return pathExists(s.root, "class/infiniband_verbs") }

// Node returns the uverbs node of a device, as in "uverbs0". It returns
// ErrNoDevice if the device has none, and another error if the nodes cannot be read.
func (s FS) Node(name string) (string, error) {
	nodes, err := s.Nodes()
	if node, ok := nodes[name]; ok {
		return node, nil
	}
	if err == nil {
		err = verbs.ErrNoDevice
	}
	return "", verbs.NewOpError("read uverbs node", name, 0, err)
}

// OtherNetns returns the devices of other network namespaces, sorted by name, in exclusive mode: devices that have a node and are not
// in this network namespace, such as a device that a pod uses. names and nodes are the results of Devices and Nodes. The class
// infiniband shows the devices of the network namespace in which this sysfs was mounted, since it has a tag for each (net_namespace in
// drivers/infiniband/core/device.c). The class infiniband_verbs has no tags, and shows the nodes of all devices. OtherNetns asks no
// driver.
func (s FS) OtherNetns(names []string, nodes map[string]string) []verbs.Found {
	var others []verbs.Found
	for name, node := range nodes {
		if slices.Contains(names, name) {
			continue
		}
		dir := filepath.Join(s.root, "class/infiniband_verbs", node)
		f := functionAt(dir, linkBase(dir, "device/driver"))
		f.Name, f.Index, f.Node, f.Netns = name, -1, node, verbs.NetnsOther
		others = append(others, f)
	}
	slices.SortFunc(others, func(a, b verbs.Found) int { return strings.Compare(a.Name, b.Name) })
	return others
}

// Instance identifies one registration of a device with the kernel. A device that is removed and added
// again has another Instance, even under the same name and node. The zero Instance is unknown.
type Instance struct {
	path string
	info os.FileInfo // nil: unknown
}

// Instance returns the present Instance of a device, the zero Instance if it cannot be read. It asks
// no driver.
func (s FS) Instance(name string) Instance {
	node, err := s.Node(name)
	if err != nil {
		return Instance{}
	}
	path := filepath.Join(s.root, "class/infiniband_verbs", node)
	info, err := os.Stat(path)
	if err != nil {
		return Instance{}
	}
	return Instance{path, info}
}

// Removed reports whether the kernel has removed the device since then. The kernel removes the device
// from sysfs before it withdraws the device from the processes that have it open (ib_uverbs_remove_one
// in drivers/infiniband/core/uverbs_main.c). Removed returns false if sysfs cannot be read, and for an
// unknown Instance. It asks no driver and needs no descriptor.
func (i Instance) Removed() bool {
	if i.info == nil {
		return false
	}
	now, err := os.Stat(i.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !os.SameFile(i.info, now)
}

// NodeGUID returns a device's node GUID as sysfs shows it, in lower case
// ("e01f:e5ff:fe51:e9c2"); "" if it cannot be read. It asks no driver.
func (s FS) NodeGUID(name string) string {
	guid, _ := s.ReadNodeGUID(name)
	return guid
}

// ReadNodeGUID does the same as NodeGUID, and also returns the error of reading the GUID.
func (s FS) ReadNodeGUID(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.deviceDir(name), "node_guid"))
	return strings.ToLower(strings.TrimSpace(string(text))), err
}

// VirtualFunction reports whether the device is an SR-IOV virtual function or a scalable function. It
// asks no driver.
func (s FS) VirtualFunction(name string) bool {
	dir := s.deviceDir(name)
	return functionAt(dir, driverOf(dir)).VirtualFunction
}

// Device returns the attributes of a device that sysfs has: all of DeviceAttr
// but Ports, Vectors, AlwaysActive and CountsFlushes. A scalable function has the PCI address of
// its physical function.
func (s FS) Device(name string) verbs.DeviceAttr {
	dir := s.deviceDir(name)
	driver := driverOf(dir)
	address := pciAddress(linkBase(dir, "device"))
	if isScalable(driver) {
		address = scalableParent(dir)
	}
	return verbs.DeviceAttr{
		Name:            name,
		EventsSupported: verbs.DriverRaisesEvents(driver),
		NodeGUID:        s.NodeGUID(name),
		SysImageGUID:    strings.ToLower(readAttr(dir, "sys_image_guid")),
		PCIAddress:      address,
		NUMANode:        parseNUMANode(readAttr(dir, "device/numa_node")),
		BoardID:         readAttr(dir, "board_id"),
		Driver:          driver,
		Transport:       parseTransport(readAttr(dir, "node_type")),
		Firmware:        readAttr(dir, "fw_ver"),
		VirtualFunction: s.VirtualFunction(name),
	}
}

// Ports returns the numbers of a device's ports in ascending order, none if there is no such device.
// It asks no driver.
func (s FS) Ports(name string) []int {
	names, err := listDir(filepath.Join(s.deviceDir(name), "ports"))
	if err != nil {
		return nil
	}
	var ports []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			ports = append(ports, n)
		}
	}
	slices.Sort(ports)
	return ports
}

// Port adds NetDev and LinkDowned to the answer of a port query, and RateGbps
// and Width if the answer has none. It does not change values that cannot be
// read.
func (s FS) Port(name string, port int, attr *verbs.PortAttr) {
	s.PortLink(name, port, attr)
	if n, err := s.LinkDowned(name, port); err == nil {
		attr.LinkDowned, attr.HasLinkDowned = n, true
	}
}

// PortLink does the same as Port, without LinkDowned.
func (s FS) PortLink(name string, port int, attr *verbs.PortAttr) {
	dir := s.portDir(name, port)
	if attr.LinkLayer != verbs.LinkInfiniBand {
		if dev := portNetDev(dir); dev != "" {
			attr.NetDev = dev
		}
	}
	if attr.RateGbps != 0 && attr.Width != "" {
		return
	}
	rate, width, ok := parseRate(readAttr(dir, "rate"))
	if ok && attr.RateGbps == 0 {
		attr.RateGbps = rate
	}
	if ok && attr.Width == "" {
		attr.Width = width
	}
}

// RateOr returns a port's rate in Gb/s, or other if it cannot be read.
func (s FS) RateOr(name string, port int, other float64) float64 {
	if rate, _, ok := parseRate(readAttr(s.portDir(name, port), "rate")); ok {
		return rate
	}
	return other
}

// ReadHWCounter reads one file in the hw_counters of a port and drops the value. With many drivers
// the kernel then asks the device for all counters. The error is fs.ErrNotExist if the port has no
// hw_counters, else it wraps the errno of the driver.
func (s FS) ReadHWCounter(name string, port int) error {
	dir := filepath.Join(s.portDir(name, port), "hw_counters")
	names, err := listDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == lifespan {
			continue
		}
		if _, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("read hw_counter: %w", err)
		}
		return nil
	}
	return fmt.Errorf("read hw_counters: %w", &fs.PathError{Op: "readdir", Path: dir, Err: fs.ErrNotExist})
}

// lifespan is a file in hw_counters that is no counter. It has the time for which the
// kernel keeps the values, 10 ms unless an administrator has changed it
// (drivers/infiniband/core/sysfs.c).
const lifespan = "lifespan"

func (s FS) deviceDir(name string) string {
	return filepath.Join(s.root, "class/infiniband", name)
}

func (s FS) portDir(name string, port int) string {
	return filepath.Join(s.deviceDir(name), "ports", strconv.Itoa(port))
}

// The drivers of soft devices.
const (
	driverRxe = "rdma_rxe"
	driverSiw = "siw"
)

// driverOf returns the kernel driver of a device. The RDMA core does not publish it,
// so the result is the driver of the device below (irdma shows as "ice", bnxt_re as
// "bnxt_en"). Attributes that only soft devices have identify these. They are checked
// first, because older kernels placed soft devices below the network card's device.
func driverOf(dir string) string {
	desc := readAttr(dir, "node_desc")
	switch {
	case desc == "rxe" || pathExists(dir, "parent"): // rdma-ndd may rewrite node_desc
		return driverRxe
	case strings.HasPrefix(desc, "Software iWARP stack"): // SIW_NODE_DESC_COMMON
		return driverSiw
	}
	if driver := linkBase(dir, "device/driver"); driver != "" {
		return driver
	}
	if !pathExists(dir, "device") && parseTransport(readAttr(dir, "node_type")) == "iwarp" {
		return driverSiw
	}
	return ""
}

// netDevEntries limits the search for a valid GID. The default GIDs come first
// in the table; on a port without any GID, reading any of its 256 entries fails
// with EINVAL.
const netDevEntries = 16

// portNetDev returns the network device of the first GID that has one.
func portNetDev(dir string) string {
	for i := range netDevEntries {
		if dev := readAttr(dir, "gid_attrs/ndevs", strconv.Itoa(i)); dev != "" {
			return dev
		}
	}
	return ""
}

// LinkDowned reads the counter link_downed from the directory in which the driver has it. InfiniBand
// drivers have it in counters/, where a port without performance management answers "N/A (no PMA)".
// Soft drivers have it in hw_counters/. If neither has it, LinkDowned returns the error of counters/.
func (s FS) LinkDowned(name string, port int) (uint64, error) {
	n, err := readCounter(filepath.Join(s.portDir(name, port), "counters", "link_downed"))
	if err == nil {
		return n, nil
	}
	if n, err := readCounter(filepath.Join(s.portDir(name, port), "hw_counters", "link_downed")); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("read link_downed: %w", err)
}

// listDir returns the sorted names in a directory, and none if it does not
// exist.
func listDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// readAttr returns an attribute without the surrounding white space. It returns
// "" if the attribute cannot be read, which happens for existing files as well
// (EINVAL, EIO, EACCES).
func readAttr(elem ...string) string {
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// linkBase returns the last element of a symbolic link's target, "" if there is
// no link.
func linkBase(elem ...string) string {
	target, err := os.Readlink(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

func pathExists(elem ...string) bool {
	_, err := os.Lstat(filepath.Join(elem...))
	return err == nil
}
