package native_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/verbs"
)

var update = flag.Bool("update", false, "rewrite docs/event-coverage.md")

// The drivers of the lab.
const (
	softRoCE  = "rxe"
	softIWARP = "siw"
)

// recipe is a way to make a type of event happen on a real kernel. TestNativeBackendReadsEveryTypeOfEvent
// carries out those of its driver and kernel.
type recipe struct {
	how     string   // what provocations knows it by
	drivers []string // nil: all
	kernel  string   // the first that can; "": any
}

// How events are provoked: by what makes a driver say them, or by the test module tests/lab/evinject.
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
	coverageDoc   = "../../../docs/event-coverage.md"
	unknownNumber = 4711
)

// covered is one type of event: what design and dashboards know it by, and how it is provoked.
type covered struct {
	number      int
	name, scope string
	recipes     []recipe
	cannot      map[string]string // by driver, why no recipe is there
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
	want := coverageDocument()
	if *update {
		require.NoError(t, os.WriteFile(coverageDoc, []byte(want), 0o644))
	}
	got, err := os.ReadFile(coverageDoc)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "to write it anew: go test ./internal/verbs/native -run TestTheDocument -update")
}

func coverageDocument() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Event coverage

<!-- Printed by TestTheDocumentOnEventCoverageIsUpToDate in internal/verbs/native; do not edit. -->

How each type of asynchronous event was made to happen, and read by the same code that the worker runs
(internal/verbs/native), on a real kernel in the lab: Debian's 6.1 and the 6.12 of its backports, with soft RoCE (rdma_rxe)
and soft iWARP (siw). For every cell the test %s makes the event happen and
asserts its name, scope and port, how many came, that each was acknowledged (by the ledger), and that the object it
belongs to is destroyed without delay afterwards. To run it:

    go test -tags lab ./tests/lab -run '^TestGuests$/internal/verbs/native' -guest.run %s -v

The test module is tests/lab/evinject. It uses the kernel's own ways: an event that it dispatches goes to all open
contexts, one that it gives to an object's handler, as a driver would, to the context that owns the object. The
objects are made by a test-only helper (internal/verbs/verbstest/rawverbs); the worker itself makes no shared receive queue and
no work queue.

| event | number | scope | soft RoCE | soft iWARP |
|---|---|---|---|---|
`, coverageTest, coverageTest)
	for _, c := range eventCoverage() {
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s |\n", c.name, c.number, c.scope, c.cell(softRoCE), c.cell(softIWARP))
	}
	fmt.Fprintf(&b, "\nThe stand-in library takes the place of libibverbs (internal/verbs/verbstest/standin), which neither\n"+
		"driver has work queues for: %s reads all types through it, too.\n", standInTest)
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
