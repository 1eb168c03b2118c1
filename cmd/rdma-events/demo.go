package main

import (
	"strings"

	"rdma_events/internal/agent"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
)

// simulated has a configuration simulate two devices on which a bit of everything happens.
func simulated(c *agent.Config) {
	c.Backend, c.Sim.Profile, c.Sim.Scenario = verbs.BackendSim, "roce2", "lively"
}

// demonstration says that nothing is real.
func demonstration(hosts bool) string {
	if hosts {
		return "a demonstration: these hosts and devices are simulated, and nothing here happens on this host"
	}
	return "a demonstration: these devices are simulated, and nothing here happens on this host; one worker crashes, which is part of it"
}

// demoHosts are those that the built-in scenario "fabric" is about, of which this host is the first.
const demoHosts = `
gpu01 rack1
gpu02 rack1
gpu03 rack1
gpu04 rack1
gpu05 rack2
gpu06 rack2
gpu07 rack2
gpu08 rack2
gpu09 rack3
gpu10 rack3
gpu11 rack3
gpu12 rack3
gpu13 rack4
gpu14 rack4
gpu15 rack4
gpu16 rack4
`

// simulatedHosts has a configuration simulate a network between hosts on which something goes wrong every few seconds.
func simulatedHosts(c *agent.Config) error {
	list, err := pinglist.ParseList(strings.NewReader(demoHosts))
	if err != nil {
		return err
	}
	simulated(c)
	c.Sim.Scenario = "fabric"
	c.Fabric.UseList(list, "gpu01")
	return nil
}
