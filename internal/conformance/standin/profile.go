package standin

import (
	"fmt"
	"os"
	"path/filepath"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// Profile describes a driver with its provider, as the stand-in can behave: first the
// facts that were read in their sources (Profiles names the versions), then the results
// that a user of the plugin sees.
type Profile struct {
	Name   string // up to a space also the name of the simulator's profile
	Module string // the device's driver in sysfs; "": none

	NodeType string // in sysfs; "": that of InfiniBand and RoCE
	Link     verbs.LinkLayer
	GRH      bool // its port requires a GRH (IBV_QPF_GRH_REQUIRED)
	Provider Provider
	Arm      int32
	Files    map[string]string // in sysfs, below the device: its counters

	PortEvents    int               // events of each kind when its port goes down or up
	Events        []verbs.EventType // other events that it raises for its ports and itself
	Fatal         int               // port number in its DEVICE_FATAL; -1: it raises none
	CanDie        bool              // it has an error state
	Disassociates bool              // a removal takes the device away from its users and does not wait for them

	Commands   map[ledger.Call]int // commands to the device for each call, at most: a transition may need none
	LinkDowned int                 // commands for each read of that counter

	Seen Seen
}

// Seen is the result that a user sees with the default configuration.
type Seen struct {
	Up, Down Probing // while its port is active, and down
	Query    int     // commands for a query of a port
	Dead     string  // reason with which a watch ends in error state; "": it goes on
	Reopen   string  // reason with which the next watch ends if the error state lasts; "": it goes on
	Unmade   string  // why the next watch has no probe
}

// Probing is how a port is probed.
type Probing struct {
	Method  verbs.Method
	Why     string // part of the reason for it
	Round   int    // commands of each round
	Attempt int    // commands of each attempt to find another method, if there is none
}

// Take makes the stand-in behave as p.
func (c *Control) Take(p Profile) {
	c.Provider, c.Arm, c.LinkLayer = p.Provider, p.Arm, int32(p.Link)
	if p.GRH {
		c.PortFlags = 1
	}
	for call := range p.Commands {
		c.Provider.Commands |= 1 << call
	}
}

// Sum returns how many commands the given calls cost.
func (p Profile) Sum(calls map[ledger.Call]int) int {
	sum := 0
	for call, n := range calls {
		sum += n * p.Commands[call]
	}
	return sum
}

// WriteSysfs makes the files of a device of this profile: those of the function
// WriteSysfs, and its own.
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

// ProfileOf returns the profile of a name; false if there is none.
func ProfileOf(name string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// each returns one command for each of the calls.
func each(calls ...ledger.Call) map[ledger.Call]int {
	commands := map[ledger.Call]int{}
	for _, c := range calls {
		commands[c] = 1
	}
	return commands
}

// and adds n commands of a call to commands and returns them.
func and(commands map[ledger.Call]int, call ledger.Call, n int) map[ledger.Call]int {
	commands[call] += n
	return commands
}

// queues returns one command for each call that is a command with nearly all drivers
// (queues, memory and transitions), and for each of more.
func queues(more ...ledger.Call) map[ledger.Call]int {
	return each(append(more, ledger.CallCreateCQ, ledger.CallDestroyCQ, ledger.CallCreateQP, ledger.CallDestroyQP,
		ledger.CallModifyQP, ledger.CallRegMR, ledger.CallDeregMR)...)
}
