package main

import (
	"strings"

	"rdma_events/internal/agent"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/pinglist"
)

// simulateDevices makes a configuration simulate two devices with events of every kind.
func simulateDevices(c *agent.Config) {
	c.Backend, c.Sim.Profile, c.Sim.Scenario = verbs.BackendSim, "roce2", "mixed"
}

// demoNotice returns the line that tells the user that everything is simulated.
func demoNotice(hosts bool) string {
	if hosts {
		return "a demonstration: these hosts and devices are simulated, and nothing here happens on this host"
	}
	return "a demonstration: these devices are simulated, and nothing here happens on this host; one worker crashes, which is part of it"
}

// demoHosts is the list of hosts in the built-in scenario "fabric". This host is the first one.
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

// simulateHosts makes a configuration simulate a network between hosts with a new fault every few seconds.
func simulateHosts(c *agent.Config) error {
	list, err := pinglist.ParseList(strings.NewReader(demoHosts))
	if err != nil {
		return err
	}
	simulateDevices(c)
	c.Sim.Scenario = "fabric"
	c.Fabric.UseList(list, "gpu01")
	return nil
}
