package preview

import (
	_ "embed" // for the scenario

	"rdma_events/tests/history"
)

// troubled is an hour of a host whose applications have trouble.
//
//go:embed applications.toml
var troubled string

// applicationHosts returns hosts with applications: one whose applications have trouble, one whose applications had trouble
// before, and one whose tracer is not permitted to start.
func applicationHosts() []history.Host {
	const (
		ended = "[[app]]\nat = \"6m\"\nfor = \"31m\"\nname = \"ior\"\nunit = \"job_1862\"\nprocesses = 4\nqps = 32\nevent = \"cq_err\"\n" +
			"event_at = \"12m\"\nread_after = \"2s\"\n"
		server = "[[app]]\nname = \"storaged\"\nunit = \"storaged.service\"\nsrqs = 4\nqps = 96\nevent = \"srq_limit_reached\"\n" +
			"event_at = \"90s\"\nevent_every = \"7m\"\n"
		refused = "[[fault]]\nkind = \"tracer_refused\"\n"
	)
	hosts := []history.Host{
		{Name: "node0007", Timeline: troubled}, {Name: "node0011", Timeline: ended + server}, {Name: "node0012", Timeline: server + refused},
	}
	for i := range hosts {
		hosts[i].Profile, hosts[i].Seed, hosts[i].Applications = "fleet2", 1, true
	}
	return hosts
}
