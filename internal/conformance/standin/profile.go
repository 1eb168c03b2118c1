package standin

import (
	"fmt"
	"os"
	"path/filepath"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// Profile describes the behavior of a driver and its provider for the stand-in: first the
// facts that were read in their sources (Profiles names the versions), then the results
// for a user of the plugin.
type Profile struct {
	Name   string // up to a space also the name of the simulator's profile
	Module string // the device's driver in sysfs; "": none

	NodeType string // in sysfs; "": the type of InfiniBand and RoCE devices
	Link     verbs.LinkLayer
	GRH      bool // the port requires a GRH (IBV_QPF_GRH_REQUIRED)
	Provider Provider
	Arm      int32
	Files    map[string]string // counter files in sysfs, below the device

	PortEvents    int               // number of events of each type when the port goes down or up
	Events        []verbs.EventType // further events for the ports and the device
	Fatal         int               // port number in DEVICE_FATAL; -1: no such event
	CanDie        bool              // the device has an error state
	Disassociates bool              // a removal takes the device away from its users without waiting for them

	Commands   map[ledger.Call]int // firmware commands of each call, at most: a transition may need none
	LinkDowned int                 // firmware commands for each read of link_downed

	Seen Seen
}

// Seen is the result for a user with the default configuration.
type Seen struct {
	Up, Down Probing // while the port is active, and while it is down
	Query    int     // firmware commands for a port query
	Dead     string  // reason with which a watch ends in error state; "": it continues
	Reopen   string  // reason with which the next watch ends if the error state lasts; "": it continues
	Unmade   string  // why the next watch has no probe
}

// Probing describes how a port is probed.
type Probing struct {
	Method  verbs.Method
	Why     string // part of the reason for the method
	Round   int    // firmware commands of each round
	Attempt int    // firmware commands of each attempt to find another method, if there is none
}

// Apply makes the stand-in behave like p.
func (c *Control) Apply(p Profile) {
	c.Provider, c.Arm, c.LinkLayer = p.Provider, p.Arm, int32(p.Link)
	if p.GRH {
		c.PortFlags = 1
	}
	for call := range p.Commands {
		c.Provider.Commands |= 1 << call
	}
}

// CountCommands returns the number of firmware commands for the given calls.
func (p Profile) CountCommands(calls map[ledger.Call]int) int {
	sum := 0
	for call, n := range calls {
		sum += n * p.Commands[call]
	}
	return sum
}

// WriteSysfs creates the files of a device of this profile, in addition to the files of
// the function WriteSysfs.
func (p Profile) WriteSysfs(root, device, node string) error {
	if err := WriteSysfs(root, device, node); err != nil {
		return err
	}
	dir := filepath.Join(root, "class/infiniband", device)
	if p.NodeType != "" {
		if err := WriteFile(filepath.Join(dir, "node_type"), p.NodeType+"\n"); err != nil {
			return err
		}
	}
	for name, text := range p.Files {
		if err := WriteFile(filepath.Join(dir, name), text+"\n"); err != nil {
			return err
		}
	}
	if p.Module == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "device"), 0o755); err != nil {
		return fmt.Errorf("make device of %s: %w", device, err)
	}
	return os.Symlink("../../../bus/pci/drivers/"+p.Module, filepath.Join(dir, "device/driver"))
}

// FindProfile returns the profile with this name; false if there is none.
func FindProfile(name string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// oneForEach returns one command for each of the calls.
func oneForEach(calls ...ledger.Call) map[ledger.Call]int {
	commands := map[ledger.Call]int{}
	for _, c := range calls {
		commands[c] = 1
	}
	return commands
}

// addCommands adds n commands of a call to commands, and returns commands.
func addCommands(commands map[ledger.Call]int, call ledger.Call, n int) map[ledger.Call]int {
	commands[call] += n
	return commands
}

// usualCommands returns one command for each call that is a command with nearly all drivers
// (queues, memory and transitions), and for each call in more.
func usualCommands(more ...ledger.Call) map[ledger.Call]int {
	return oneForEach(append(more, ledger.CallCreateCQ, ledger.CallDestroyCQ, ledger.CallCreateQP, ledger.CallDestroyQP,
		ledger.CallModifyQP, ledger.CallRegMR, ledger.CallDeregMR)...)
}
