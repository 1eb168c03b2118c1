package preview

import (
	"fmt"
	"time"

	"rdma_events/tests/history"
)

// trouble is a fault of one host in the picture of the Overview, which lasts until its end.
type trouble struct {
	host     int
	device   string
	at       time.Duration // since the start of the history
	timeline string        // a template
	table    string        // that shows it
	rules    []string      // that fire
}

// troubles are six different faults.
func troubles() []trouble {
	return []trouble{
		{
			17, "sim2", 49 * time.Minute, "[[link]]\nat = \"%[1]v\"\ndevice = %[2]q\nwhy = \"no_cable\"\n" +
				"[[counter]]\nat = \"%[1]v\"\ndevice = %[2]q\nsource = \"counters\"\nname = \"symbol_error\"\nby = 1831\n",
			"Ports down", []string{"RDMA port down"},
		},
		{
			31, "sim1", 38 * time.Minute, "[[fault]]\nkind = \"removed\"\nat = \"%v\"\ndevice = %q\n",
			"Devices missing or not watched", []string{"RDMA device missing"},
		},
		{
			46, "sim3", 24 * time.Minute, "[[fault]]\nkind = \"crash\"\nat = \"%[1]v\"\ndevice = %[2]q\n" +
				"[[fault]]\nkind = \"open_error\"\nerror = \"no_permission\"\nat = \"%[1]v\"\ndevice = %[2]q\n",
			"Devices missing or not watched", []string{"RDMA worker backing off or stuck"},
		},
		{
			58, "sim0", 33 * time.Minute, "[[link]]\nat = \"%v\"\ndevice = %q\ndown_for = \"1s\"\nlanes = 1\n",
			"Links slow", []string{"RDMA link slower than it should be"},
		},
		{
			72, "sim2", 56 * time.Minute, "[[fault]]\nkind = \"lost_event\"\nat = \"%v\"\ndevice = %q\n",
			"Failing probes", []string{"RDMA completion events lost"},
		},
		{
			84, "sim1", 44 * time.Minute, "[[command]]\ncall = \"query_port\"\nwhat = \"fails\"\nat = \"%v\"\ndevice = %q\n",
			"Commands stuck", []string{"RDMA command stuck"},
		},
	}
}

// fleetHosts returns 100 hosts: six with one fault each, some whose ports have flapped, and healthy ones. On each host an address
// changes once.
func fleetHosts() []history.Host {
	hosts := make([]history.Host, 100)
	for i := range hosts {
		hosts[i] = history.Host{Name: fmt.Sprintf("node%04d", i+1), Profile: "fleet4", Seed: 1122}
		hosts[i].Timeline = fmt.Sprintf("[[event]]\nat = \"%dm\"\ntype = \"gid_change\"\ndevice = \"sim%d\"\n", 6+i*31%58, i%4)
		if i%12 == 9 { // the flaps are over before the range of the rule about them
			hosts[i].Timeline += fmt.Sprintf("[[link]]\nat = \"%dm\"\nevery = \"70s\"\ntimes = %d\ndevice = \"sim%d\"\ndown_for = \"80ms\"\n",
				8+i%9, 2+i%7, i%3)
		}
	}
	for _, f := range troubles() {
		hosts[f.host-1].Timeline += fmt.Sprintf(f.timeline, f.at, f.device)
	}
	return hosts
}
