package native_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/docs/document"
	"rdma_events/internal/device/verbs"
)

var update = flag.Bool("update", false, "rewrite the part of docs/reference/compatibility.md about events")

// The drivers of the lab.
const (
	softRoCE  = "rxe"
	softIWARP = "siw"
)

// recipe describes how to provoke a type of event on a real kernel. TestNativeBackendReadsEveryTypeOfEvent
// carries out the recipes for its driver and kernel.
type recipe struct {
	how     string   // its key in provocations
	drivers []string // nil: all
	kernel  string   // the first kernel that can do it; "": any
}

// The means to provoke events: an action that makes a driver raise them, or the test module tests/lab/evinject.
const (
	byOverrun     = "three completions more than a CQ has room for"
	byFlush       = "flushing more receives than a CQ has room for"
	byDraining    = "moving a queue pair from RTS to SQD"
	byLimit       = "receiving below the limit of an SRQ"
	byErrorState  = "moving a queue pair with an SRQ to error"
	byLinkDown    = "taking the link down"
	byLinkUp      = "taking the link up"
	byAddress     = "adding an address to the netdev"
	byMAC         = "changing the MAC address of the netdev"
	byDispatch    = "dispatched by the test module"
	byHandler     = "given to the object by the test module"
	byStandIn     = "the stand-in library"
	standInTest   = "TestEachEventIsReadForWhatItIsAndAcknowledgedOnce"
	coverageTest  = "TestNativeBackendReadsEveryTypeOfEvent"
	coverageDoc   = "../../../docs/reference/compatibility.md"
	unknownNumber = 4711
)

// covered is one type of event: its number, its name and scope in design and dashboards, and how it is provoked.
type covered struct {
	number      int
	name, scope string
	recipes     []recipe
	cannot      map[string]string // by driver, the reason that it has no recipe
}

func eventCoverage() []covered {
	on := func(how string, drivers ...string) recipe { return recipe{how: how, drivers: drivers} }
	object, dispatch := []recipe{on(byHandler)}, []recipe{on(byDispatch)}
	and := func(more []recipe, first ...recipe) []recipe { return append(first, more...) }
	return []covered{
		{number: 0, name: "cq_err", scope: "cq", recipes: and(object, on(byOverrun, softRoCE), on(byFlush, softIWARP))},
		{number: 1, name: "qp_fatal", scope: "qp", recipes: object},
		{number: 2, name: "qp_req_err", scope: "qp", recipes: object},
		{number: 3, name: "qp_access_err", scope: "qp", recipes: object},
		{number: 4, name: "comm_est", scope: "qp", recipes: object},
		{number: 5, name: "sq_drained", scope: "qp", recipes: and(object, on(byDraining, softRoCE))},
		{number: 6, name: "path_mig", scope: "qp", recipes: object},
		{number: 7, name: "path_mig_err", scope: "qp", recipes: object},
		{number: 8, name: "device_fatal", scope: "device", recipes: dispatch},
		{number: 9, name: "port_active", scope: "port", recipes: and(dispatch, on(byLinkUp))},
		{number: 10, name: "port_err", scope: "port", recipes: and(dispatch, on(byLinkDown))},
		{number: 11, name: "lid_change", scope: "port", recipes: and(dispatch, on(byMAC, softIWARP))},
		{number: 12, name: "pkey_change", scope: "port", recipes: dispatch},
		{number: 13, name: "sm_change", scope: "port", recipes: dispatch},
		{number: 14, name: "srq_err", scope: "srq", recipes: object},
		{number: 15, name: "srq_limit_reached", scope: "srq", recipes: and(object, on(byLimit, softRoCE))},
		{number: 16, name: "qp_last_wqe_reached", scope: "qp",
			recipes: and(object, recipe{how: byErrorState, drivers: []string{softRoCE}, kernel: "6.12"})},
		{number: 17, name: "client_reregister", scope: "port", recipes: dispatch},
		{number: 18, name: "gid_change", scope: "port", recipes: []recipe{on(byAddress, softRoCE)},
			cannot: map[string]string{softIWARP: "the kernel keeps a dispatched one for itself, and siw's one GID is its MAC address"}},
		{number: 19, name: "wq_fatal", scope: "wq", recipes: []recipe{on(byStandIn)}},
		{number: 20, name: "device_speed_change", scope: "device", recipes: dispatch},
		{number: unknownNumber, name: "unknown_4711", scope: "unknown", recipes: dispatch},
	}
}

func (r recipe) of(driver string) bool { return r.drivers == nil || slices.Contains(r.drivers, driver) }

func TestEveryTypeOfEventIsCoveredOnEveryDriverOrSaysWhyNot(t *testing.T) {
	named := map[int]bool{}
	for _, c := range eventCoverage() {
		named[c.number] = true
		require.Equal(t, c.name, verbs.EventType(c.number).String())
		require.Equal(t, c.scope, verbs.EventType(c.number).Scope().String())
		for _, driver := range []string{softRoCE, softIWARP} {
			has := slices.ContainsFunc(c.recipes, func(r recipe) bool { return r.of(driver) && r.kernel == "" })
			require.NotEqual(t, has, c.cannot[driver] != "", "%s on %s", c.name, driver)
		}
	}
	for typ := verbs.EventType(0); typ.Known(); typ++ {
		require.True(t, named[int(typ)], "%v", typ)
	}
}

func TestTheDocumentOnEventCoverageIsUpToDate(t *testing.T) {
	part := coveragePart()
	if *update {
		require.NoError(t, document.Rewrite(coverageDoc, "coverage", part))
	}
	got, err := os.ReadFile(coverageDoc)
	require.NoError(t, err)
	want, err := document.Replace(string(got), "coverage", part)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "to rewrite it: go test ./internal/verbs/native -run TestTheDocument -update")
}

func coveragePart() string {
	var b strings.Builder
	fmt.Fprintf(&b, `How each type of event was made to happen and was read by the worker's own code, on Linux 6.1 and 6.12. For each cell
%s asserts name, scope, port and count, that each event was acknowledged, and that the
object it belongs to is destroyed without delay afterwards.

| event | number | scope | soft RoCE | soft iWARP |
|---|---|---|---|---|
`, coverageTest)
	for _, c := range eventCoverage() {
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s |\n", c.name, c.number, c.scope, c.cell(softRoCE), c.cell(softIWARP))
	}
	fmt.Fprintf(&b, "\nNeither driver has work queues: %s reads all types through the stand-in\nfor libibverbs, too.\n", standInTest)
	return b.String()
}

func (c covered) cell(driver string) string {
	if why := c.cannot[driver]; why != "" {
		return "cannot happen: " + why
	}
	var ways []string
	for _, r := range c.recipes {
		if !r.of(driver) {
			continue
		}
		way := r.how
		if r.kernel != "" {
			way += " (from " + r.kernel + ")"
		}
		ways = append(ways, way)
	}
	return strings.Join(ways, "; ")
}
