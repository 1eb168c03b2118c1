package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/BurntSushi/toml"
	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
)

// host is the contents of a host.toml.
type host struct {
	Report  []string `toml:"report"` // addresses of what is public about such hosts
	Story   string   `toml:"story"`
	Config  string   `toml:"config"` // of the plugin, besides its intervals
	Lasts   lasting  `toml:"lasts"`  // how long the points go on after the last event before the commands run, as in "65s"
	Devices []device `toml:"device"`
	Events  []event  `toml:"event"` // what happens while the plugin runs, in this order

	Remembered []remembered `toml:"remembered"` // what the plugin has written into its state directory; nil: there is no such directory

	ExclusiveNetns bool `toml:"exclusive_netns"` // each device belongs to one network namespace
	Container      bool `toml:"container"`       // /dev is that of a container
	NoProviders    bool `toml:"no_providers"`    // libibverbs is installed without any provider library
}

// remembered is a device that the host remembers.
type remembered struct {
	Name   string  `toml:"name"`
	PCI    string  `toml:"pci"`
	GUID   string  `toml:"guid"`
	Driver string  `toml:"driver"`
	Ports  []int   `toml:"ports"` // that have been active
	Rate   float64 `toml:"rate"`  // of these ports, in Gb/s
}

// lasting is a duration in the form of time.ParseDuration.
type lasting struct{ time.Duration }

// UnmarshalText parses the duration.
func (l *lasting) UnmarshalText(text []byte) (err error) {
	l.Duration, err = time.ParseDuration(string(text))
	return err
}

// event is something that happens to a device of a host.
type event struct {
	After  string `toml:"after"` // the expectation of the points that is met before it happens
	Device string `toml:"device"`
	Does   string `toml:"does"` // a key of deeds

	after expectation
}

// deeds are what a device of a host may do.
var deeds = map[string]func(d *device, sys string) error{
	"leave the namespace": (*device).leave, "be unregistered": (*device).unregister, "lose the PCI function": (*device).loseFunction,
	"come back": (*device).comeBack,
}

// device is an RDMA device of a host. What is not set is as with a healthy port of a ConnectX.
type device struct {
	Name      string    `toml:"name"`
	PCI       string    `toml:"pci"`       // the address of its function, or of the one that it is below; "": a soft device has none
	PF        string    `toml:"pf"`        // it is a virtual function of the function at this address
	PCIe      *pcie     `toml:"pcie"`      // the PCIe link to the port above it; nil: no port is above it
	Auxiliary string    `toml:"auxiliary"` // its device on the auxiliary bus, as in "mlx5_core.sf.2"
	Driver    string    `toml:"driver"`
	NetDev    string    `toml:"netdev"`
	GUID      string    `toml:"guid"`
	NodeType  string    `toml:"node_type"`
	Board     string    `toml:"board"` // "none": the driver has no board_id
	Rate      int       `toml:"rate"`  // in Gb/s, over four lanes; 0: 400
	Link      string    `toml:"link"`  // "ethernet", "infiniband" or "unspecified"
	State     string    `toml:"state"`
	Phys      int32     `toml:"phys"` // as in sysfs: 2 polling, 3 disabled, 5 link up
	LID       int32     `toml:"lid"`
	SMLID     *int32    `toml:"sm_lid"`
	GIDs      *[]string `toml:"gids"` // nil: those of an InfiniBand or RoCE port

	Profile         string `toml:"profile"`          // of the stand-in library
	Refuses         string `toml:"refuses"`          // the errno of each query of the port
	RefusesOpen     string `toml:"refuses_open"`     // the errno of each attempt to open it
	RefuseDatagrams bool   `toml:"refuse_datagrams"` // no address handle can be made
	Node            *bool  `toml:"node"`             // false: ib_uverbs has made no node
	NodeFile        *bool  `toml:"node_file"`        // false: sysfs has the node, and there is no file for it in /dev
	Private         bool   `toml:"private"`          // the node belongs to another user and has mode 0600
	Forbidden       bool   `toml:"forbidden"`        // the kernel refuses to open the node, whatever its mode
	Provider        *bool  `toml:"provider"`         // false: the library cannot open it

	index int              // among the devices of the host
	below string           // the directory of the device below it in sysfs
	node  string           // its node, "" if it has none
	page  *standin.Control // by which the stand-in library knows how it behaves
}

// pcie is the PCIe link of a device.
type pcie struct {
	Speed     float64 `toml:"speed"` // in GT/s
	Width     int     `toml:"width"`
	CardSpeed float64 `toml:"card_speed"` // the greatest of the card, as are the others
	CardWidth int     `toml:"card_width"`
	PortSpeed float64 `toml:"port_speed"`
	PortWidth int     `toml:"port_width"`
}

// states are the states of a port by their names in a host.toml, with the text that sysfs has.
var states = map[string]struct {
	is   verbs.PortState
	text string
}{
	"": {verbs.PortActive, "4: ACTIVE"}, "down": {verbs.PortDown, "1: DOWN"}, "init": {verbs.PortInit, "2: INIT"},
	"armed": {verbs.PortArmed, "3: ARMED"},
}

// physStates are the physical states as sysfs has them.
var physStates = map[int32]string{2: "2: Polling", 3: "3: Disabled", linkUp: "5: LinkUp"}

// rates are the rates of a port over four lanes, with the speed of a lane (enum ib_port_speed) and the text that sysfs has.
var rates = map[int]struct {
	speed int32
	text  string
}{
	400: {128, "400 Gb/sec (4X NDR)"}, 200: {64, "200 Gb/sec (4X HDR)"}, 100: {32, "100 Gb/sec (4X EDR)"},
}

// errnos are the errnos of a host.toml by their names.
var errnos = map[string]unix.Errno{
	"EACCES": unix.EACCES, "EINVAL": unix.EINVAL, "EIO": unix.EIO, "ENOENT": unix.ENOENT, "EPERM": unix.EPERM, "ETIMEDOUT": unix.ETIMEDOUT,
}

const linkUp = 5 // IB_PORT_PHYS_STATE_LINK_UP

// readHost reads a host.toml. Keys that are not known are an error.
func readHost(path string) (*host, error) {
	var h host
	meta, err := toml.DecodeFile(path, &h)
	if err == nil && len(meta.Undecoded()) > 0 {
		err = fmt.Errorf("unknown keys %v", meta.Undecoded())
	}
	if err == nil && (len(h.Report) == 0 || h.Story == "" || len(h.Devices) == 0) {
		err = errors.New("a host needs report, story and device")
	}
	for i := range h.Events {
		err = errors.Join(err, h.check(&h.Events[i]))
	}
	if err != nil {
		return nil, fmt.Errorf("read host %s: %w", path, err)
	}
	return &h, nil
}

// check completes an event of the host.
func (h *host) check(e *event) (err error) {
	e.after, err = parseExpectation(e.After)
	if err == nil && (e.after.subject != "points" || deeds[e.Does] == nil || h.device(e.Device) == nil) {
		err = fmt.Errorf("event %+v is not known", *e)
	}
	return err
}

// device returns the device of that name; nil if there is none.
func (h *host) device(name string) *device {
	if i := slices.IndexFunc(h.Devices, func(d device) bool { return d.Name == name }); i >= 0 {
		return &h.Devices[i]
	}
	return nil
}

// build makes the host below dir: the trees sys, nodes and run.
func (h *host) build(dir string) error {
	for _, d := range []string{"sys/class/infiniband", "sys/class/infiniband_verbs", "sys/class/net", "sys/bus/pci/devices", "nodes", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if _, err := standin.Map(filepath.Join(dir, "nodes", "library")); err != nil {
		return err
	}
	source := map[bool]string{false: "udev", true: "tmpfs"}[h.Container]
	if err := standin.WriteFile(filepath.Join(dir, "dev-source"), source); err != nil {
		return err
	}
	mode := map[bool]string{false: "Y\n", true: "N\n"}[h.ExclusiveNetns]
	if err := standin.WriteFile(filepath.Join(dir, "sys/module/ib_core/parameters/netns_mode"), mode); err != nil {
		return err
	}
	for i := range h.Devices {
		if err := h.Devices[i].build(dir, i); err != nil {
			return fmt.Errorf("build %s: %w", h.Devices[i].Name, err)
		}
	}
	if len(h.Remembered) == 0 {
		return nil
	}
	state := filepath.Join(dir, stateDir)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	return h.remember(state)
}

// stateDir is the state directory of a host, below its root.
const stateDir = "run/state/rdma_events"

// remember writes the memory as a plugin does that ran on this machine before.
func (h *host) remember(dir string) error {
	m, err := memory.Open(dir, memory.Machine(), time.Now)
	if err != nil {
		return fmt.Errorf("write memory: %w", err)
	}
	for _, r := range h.Remembered {
		m.RememberDevice(r.Name, memory.Identity{NodeGUID: r.GUID, PCI: r.PCI, Driver: r.Driver}, true)
		for _, port := range r.Ports {
			m.RememberPort(r.Name, port, r.Rate)
		}
	}
	if _, err := m.Sync(); err != nil {
		return fmt.Errorf("write memory: %w", err)
	}
	return nil
}

func (d *device) build(dir string, index int) error {
	d.index = index
	below, err := d.parent(dir)
	if err != nil {
		return err
	}
	d.below = below
	sys := filepath.Join(dir, "sys")
	own := filepath.Join(below, "infiniband", d.Name)
	files := map[string]string{
		"node_type": cmp.Or(d.NodeType, "1: CA"), "node_guid": d.guid(index), "sys_image_guid": d.guid(index), "node_desc": "node",
		"board_id": cmp.Or(d.Board, "MT_0000000838"), "fw_ver": "28.39.3004",
		"ports/1/rate": rates[d.rate()].text, "ports/1/pkeys/0": "0xffff", "ports/1/link_layer": d.layer(),
		"ports/1/lid": fmt.Sprintf("%#x", d.lid()), "ports/1/sm_lid": fmt.Sprintf("%#x", d.smLID()),
		"ports/1/state": states[d.State].text, "ports/1/phys_state": physStates[cmp.Or(d.Phys, linkUp)],
	}
	if d.soft() {
		files["parent"], files["node_desc"] = d.NetDev, d.Profile
	}
	if d.soft() || d.Board == "none" {
		delete(files, "board_id")
	}
	for i, gid := range d.gids(index) {
		kind := "IB/RoCE v1"
		if d.link() == verbs.LinkEthernet && i%2 == 1 {
			kind = "RoCE v2"
		}
		at := strconv.Itoa(i)
		files["ports/1/gids/"+at], files["ports/1/gid_attrs/types/"+at] = gid, kind
		if d.NetDev != "" {
			files["ports/1/gid_attrs/ndevs/"+at] = d.NetDev
		}
	}
	for name, text := range files {
		if err := standin.WriteFile(filepath.Join(own, name), text+"\n"); err != nil {
			return err
		}
	}
	if err := errors.Join(d.linkDevice(own), makeLink(filepath.Join(sys, "class/infiniband"), d.Name, own)); err != nil {
		return err
	}
	if d.NetDev != "" {
		carrier := map[bool]string{true: "1\n", false: "0\n"}[states[d.State].is == verbs.PortActive]
		if err := standin.WriteFile(filepath.Join(below, "net", d.NetDev, "carrier"), carrier); err != nil {
			return err
		}
		if err := makeLink(filepath.Join(sys, "class/net"), d.NetDev, filepath.Join(below, "net", d.NetDev)); err != nil {
			return err
		}
	}
	if err := d.control(dir); err != nil {
		return err
	}
	if d.Node != nil && !*d.Node {
		return nil
	}
	node := nodeName(index)
	verbs := filepath.Join(below, "infiniband_verbs", node)
	err = errors.Join(
		standin.WriteFile(filepath.Join(verbs, "ibdev"), d.Name+"\n"), d.linkDevice(verbs),
		makeLink(filepath.Join(sys, "class/infiniband_verbs"), node, verbs),
	)
	if d.NodeFile != nil && !*d.NodeFile {
		return err
	}
	return errors.Join(err, d.makeNode(dir, index))
}

// soft reports whether the device is without hardware: it has no PCI function.
func (d *device) soft() bool { return d.PCI == "" }

// linkDevice makes the link "device" in a directory of sysfs, to the device below. A soft device has no such link.
func (d *device) linkDevice(dir string) error {
	if d.soft() {
		return nil
	}
	return makeLink(dir, "device", d.below)
}

// parent makes the device below the RDMA device, on the PCI or the auxiliary bus, and returns its directory. Soft devices share one.
func (d *device) parent(dir string) (string, error) {
	sys := filepath.Join(dir, "sys")
	if d.soft() {
		return filepath.Join(sys, "devices/virtual"), nil
	}
	function := filepath.Join(sys, "devices/pci0000:00", d.PCI)
	if d.PCIe != nil {
		port := filepath.Join(sys, "devices/pci0000:00", fmt.Sprintf("0000:00:%02x.0", d.index+1))
		function = filepath.Join(port, d.PCI)
		if err := d.PCIe.write(port, function); err != nil {
			return "", err
		}
	}
	driver, below, bus := d.Driver, function, "pci"
	if d.Auxiliary != "" {
		below, bus = filepath.Join(function, d.Auxiliary), "auxiliary"
	}
	if err := standin.WriteFile(filepath.Join(below, "numa_node"), "0\n"); err != nil {
		return "", err
	}
	drivers := filepath.Join(sys, "bus", bus, "drivers", driver)
	if err := errors.Join(os.MkdirAll(drivers, 0o755), os.MkdirAll(filepath.Join(sys, "bus", bus, "devices"), 0o755)); err != nil {
		return "", err
	}
	err := errors.Join(
		makeLink(below, "driver", drivers), makeLink(below, "subsystem", filepath.Join(sys, "bus", bus)),
		makeLink(filepath.Join(sys, "bus", bus, "devices"), filepath.Base(below), below),
	)
	if d.Auxiliary != "" {
		err = errors.Join(err, standin.WriteFile(filepath.Join(below, "sfnum"), "88\n"))
	}
	if d.PF != "" {
		pf := filepath.Join(sys, "devices/pci0000:00", d.PF)
		err = errors.Join(err, os.MkdirAll(pf, 0o755), makeLink(below, "physfn", pf))
	}
	return below, err
}

// write writes what the port and the function below it say about their link.
func (p *pcie) write(port, function string) error {
	speed := func(gts float64) string { return fmt.Sprintf("%.1f GT/s PCIe\n", gts) }
	width := func(lanes int) string { return fmt.Sprintf("%d\n", lanes) }
	return errors.Join(
		standin.WriteFile(filepath.Join(port, "max_link_speed"), speed(p.PortSpeed)),
		standin.WriteFile(filepath.Join(port, "max_link_width"), width(p.PortWidth)),
		standin.WriteFile(filepath.Join(function, "max_link_speed"), speed(p.CardSpeed)),
		standin.WriteFile(filepath.Join(function, "max_link_width"), width(p.CardWidth)),
		standin.WriteFile(filepath.Join(function, "current_link_speed"), speed(p.Speed)),
		standin.WriteFile(filepath.Join(function, "current_link_width"), width(p.Width)),
	)
}

// makeLink makes a relative symbolic link in a directory, as the kernel does. A link that already exists stays.
func makeLink(dir, name, target string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	up, err := filepath.Rel(dir, filepath.Dir(target)) // the kernel ends each link with the name of its target
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if err := os.Symlink(up+"/"+filepath.Base(target), filepath.Join(dir, name)); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// control makes the page by which the stand-in library knows how the device behaves.
func (d *device) control(dir string) error {
	c, err := standin.Map(filepath.Join(dir, "nodes", d.Name))
	if err != nil {
		return err
	}
	profile, ok := standin.FindProfile(cmp.Or(d.Profile, "mlx5"))
	if !ok {
		return fmt.Errorf("the stand-in has no profile %s", d.Profile)
	}
	d.page = c
	c.Apply(profile)
	c.Ports, c.LinkLayer, c.PhysState = 1, int32(d.link()), d.Phys
	state, ok := states[d.State]
	if !ok || physStates[cmp.Or(d.Phys, linkUp)] == "" {
		return fmt.Errorf("state %q with phys %d is not known", d.State, d.Phys)
	}
	rate, ok := rates[d.rate()]
	if !ok {
		return fmt.Errorf("rate %d is not known", d.Rate)
	}
	c.PortState, c.LID, c.Speed = int32(state.is), d.lid(), rate.speed
	c.SMLID = cmp.Or(d.smLID(), -1) // 0 is the library's own default
	if err := d.refuse(c); err != nil {
		return err
	}
	if d.RefuseDatagrams {
		c.Provider.RefuseAH = int32(unix.EINVAL)
	}
	if d.Provider != nil && !*d.Provider || d.NodeFile != nil && !*d.NodeFile {
		c.Unlisted = 1
	}
	return nil
}

// refuse lets the call that the device refuses fail, if there is one.
func (d *device) refuse(c *standin.Control) error {
	call, name := ledger.CallQueryPort, d.Refuses
	if d.RefusesOpen != "" {
		if name != "" {
			return errors.New("the stand-in refuses one call: want refuses or refuses_open")
		}
		call, name = ledger.CallOpenDevice, d.RefusesOpen
	}
	if name == "" {
		return nil
	}
	errno, ok := errnos[name]
	if !ok {
		return fmt.Errorf("errno %q is not known", name)
	}
	c.FailCall, c.FailErrno, c.FailAlways = int32(call), int32(errno), 1
	return nil
}

// leave moves the device and its network device to another network namespace. As in the kernel's exclusive mode, ib_uverbs
// disassociates its users and keeps its node, the class infiniband of this namespace loses it, and nobody here can open it.
func (d *device) leave(sys string) error {
	gone := []string{filepath.Join(sys, "class/infiniband", d.Name), filepath.Join(d.below, "infiniband", d.Name)}
	if d.NetDev != "" {
		gone = append(gone, filepath.Join(sys, "class/net", d.NetDev), filepath.Join(d.below, "net", d.NetDev))
	}
	for _, path := range gone {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	d.page.Unlisted, d.page.Disassociate = 1, 1
	return nil
}

// unregister removes the device from the RDMA core, as its driver does when the firmware has failed. Its users lose it with a
// device_fatal, and its PCI function stays.
func (d *device) unregister(sys string) error {
	node := nodeName(d.index)
	d.page.Unlisted, d.page.Disassociate = 1, 1 // at first, so that its users read the event before they miss the device
	for _, path := range []string{
		filepath.Join(sys, "class/infiniband_verbs", node), filepath.Join(sys, "class/infiniband", d.Name),
		filepath.Join(d.below, "infiniband_verbs"), filepath.Join(d.below, "infiniband"), filepath.Join(filepath.Dir(sys), "nodes", node),
	} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// loseFunction removes the PCI function of the device. The kernel does that after the driver has unregistered the device.
func (d *device) loseFunction(sys string) error {
	if err := d.unregister(sys); err != nil {
		return err
	}
	return errors.Join(
		os.RemoveAll(filepath.Join(sys, "class/net", d.NetDev)), os.RemoveAll(filepath.Join(sys, "bus/pci/devices", d.PCI)), os.RemoveAll(d.below),
	)
}

// comeBack registers the device again, on a new PCI function if it has lost its own. A worker that still has the old device open
// loses it all the same, at its next call of the library.
func (d *device) comeBack(sys string) error {
	d.page.Unlisted = 0
	return d.build(filepath.Dir(sys), d.index)
}

// rate returns the port's rate in Gb/s.
func (d *device) rate() int { return cmp.Or(d.Rate, 400) }

func (d *device) link() verbs.LinkLayer {
	switch d.Link {
	case "infiniband":
		return verbs.LinkInfiniBand
	case "unspecified":
		return verbs.LinkUnspecified
	}
	return verbs.LinkEthernet
}

// lid returns the port's LID. Only InfiniBand has LIDs.
func (d *device) lid() int32 {
	if d.link() != verbs.LinkInfiniBand {
		return 0
	}
	return cmp.Or(d.LID, 17)
}

// smLID returns the LID of the subnet manager; 0: the port knows none.
func (d *device) smLID() int32 {
	switch {
	case d.link() != verbs.LinkInfiniBand:
		return 0
	case d.SMLID != nil:
		return *d.SMLID
	}
	return 1
}

// layer is the text of link_layer in sysfs.
func (d *device) layer() string {
	switch d.link() {
	case verbs.LinkInfiniBand:
		return "InfiniBand"
	case verbs.LinkEthernet:
		return "Ethernet"
	}
	return "Unspecified"
}

func (d *device) guid(index int) string {
	return cmp.Or(d.GUID, fmt.Sprintf("b8ce:f603:00d2:%04x", 0x100+index))
}

// gids returns the GID table. An Ethernet port has its GIDs twice, for both versions of RoCE.
func (d *device) gids(index int) []string {
	own := fmt.Sprintf("fe80:0000:0000:0000:bace:f6ff:fed2:%04x", 0x100+index)
	table := []string{own}
	if d.link() == verbs.LinkEthernet {
		table = slices.Concat(table, table, slices.Repeat([]string{fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a00:%04x", 0x100+index)}, 2))
	}
	if d.GIDs != nil {
		table = *d.GIDs
	}
	const none = "0000:0000:0000:0000:0000:0000:0000:0000"
	return append(slices.Clone(table), none)
}
