package standin

import (
	"fmt"
	"os"
	"path/filepath"

	"rdma_events/internal/ledger"
	"rdma_events/internal/verbs"
)

// Profile is a driver with its provider, as the stand-in can be: first what was read
// in their sources (Profiles says which), then what a user of the plugin sees of it.
type Profile struct {
	Name   string // of the simulator's profile, too, but for what follows a space
	Module string // what sysfs shows as the device's driver; "": nothing

	NodeType string // of sysfs; "": that of InfiniBand and RoCE
	Link     verbs.LinkLayer
	GRH      bool // its port asks for one (IBV_QPF_GRH_REQUIRED)
	Provider Provider
	Arm      int32
	Files    map[string]string // of sysfs, below the device: its counters

	PortEvents    int               // of each kind, when its port goes down or up
	Events        []verbs.EventType // what else it raises of its ports and of itself
	Fatal         int               // the number of a port in its DEVICE_FATAL; -1: it raises none
	CanDie        bool              // it has an error state
	Disassociates bool              // a removal takes the device away from its users and does not wait for them

	Commands   map[ledger.Call]int // to the device, of each call at most: a transition may need none
	LinkDowned int                 // of each read of that counter

	Seen Seen
}

// Seen is what a user sees with the default configuration.
type Seen struct {
	Up, Down Probing // while its port is active, and down
	Query    int     // commands of a query of a port
	Dead     string  // reason that a watch ends with in error state; "": it goes on
	Reopen   string  // reason that the next watch ends with, if the error state lasts; "": it goes on
	Unmade   string  // why that one has no probe
}

// Probing is how a port is probed.
type Probing struct {
	Method  verbs.Method
	Why     string // part of the reason for it
	Round   int    // commands of each round
	Attempt int    // commands of each attempt to find another method, where there is none
}

// Take has the stand-in be as p.
func (c *Control) Take(p Profile) {
	c.Provider, c.Arm, c.LinkLayer = p.Provider, p.Arm, int32(p.Link)
	if p.GRH {
		c.PortFlags = 1
	}
	for call := range p.Commands {
		c.Provider.Commands |= 1 << call
	}
}

// Sum returns how many commands some calls are.
func (p Profile) Sum(calls map[ledger.Call]int) int {
	sum := 0
	for call, n := range calls {
		sum += n * p.Commands[call]
	}
	return sum
}

// WriteSysfs makes the files of a device of this profile (WriteSysfs, the function).
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

// ProfileOf returns the profile of a name; false: there is none.
func ProfileOf(name string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// each is one command of each of the calls.
func each(calls ...ledger.Call) map[ledger.Call]int {
	commands := map[ledger.Call]int{}
	for _, c := range calls {
		commands[c] = 1
	}
	return commands
}

// and is commands with n more of a call.
func and(commands map[ledger.Call]int, call ledger.Call, n int) map[ledger.Call]int {
	commands[call] += n
	return commands
}

// queues are commands of nearly all drivers: queues, memory and transitions.
func queues(more ...ledger.Call) map[ledger.Call]int {
	return each(append(more, ledger.CallCreateCQ, ledger.CallDestroyCQ, ledger.CallCreateQP, ledger.CallDestroyQP,
		ledger.CallModifyQP, ledger.CallRegMR, ledger.CallDeregMR)...)
}
