package ebpf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rdma_events/internal/applications/trace"
)

// part is something that a tracer sees, with all programs that it takes. If one of them has no function to be attached to,
// the part is off, and the others go on.
type part struct {
	name     string
	programs []string
	// oneOf are programs of which one is enough: kernels differ in what they call.
	oneOf []string
}

func parts() []part {
	return []part{
		{
			name: "events",
			programs: []string{
				traceProgCqEvent, traceProgQpEvent, traceProgSrqEvent, traceProgWqEvent, traceProgDeviceEvent,
				traceProgRemovedEvent, traceProgReadBegins, traceProgReadEnds, traceProgObjectGone,
			},
			oneOf: []string{traceProgClosed, traceProgFreed},
		},
		{name: "hangs", programs: []string{traceProgCqGone, traceProgObjectGone, traceProgSights}},
	}
}

// optional are programs that are left out one by one: without them the destroyed object of a hang has no number.
func optional() []string {
	return []string{traceProgCqGoes, traceProgQpGoes, traceProgSrqGoes, traceProgWqGoes}
}

// choice is what can be attached to a kernel.
type choice struct {
	programs []string
	missing  []string // functions, in alphabetical order
}

// choose chooses the programs for a kernel. functions has the function of each program, "" for one that needs none, and has
// reports whether the kernel has a function.
func choose(functions map[string]string, has func(function string) bool) (choice, error) {
	fits := func(program string) bool { return functions[program] == "" || has(functions[program]) }
	lacks := map[string]bool{}
	uses := map[string]bool{}
	for _, p := range parts() {
		wanted, missing := p.programs, without(p.programs, fits)
		if of := slices.DeleteFunc(slices.Clone(p.oneOf), func(program string) bool { return !fits(program) }); len(of) > 0 {
			wanted = append(slices.Clone(wanted), of...)
		} else if len(p.oneOf) > 0 {
			missing = append(missing, p.oneOf[0])
		}
		for _, program := range missing {
			lacks[functions[program]] = true
		}
		for _, program := range wanted {
			uses[program] = uses[program] || len(missing) == 0
		}
	}
	for _, program := range optional() {
		if uses[program] = fits(program); !uses[program] {
			lacks[functions[program]] = true
		}
	}
	c := choice{missing: slices.Sorted(maps.Keys(lacks))}
	for _, p := range parts() {
		if uses[p.programs[0]] {
			maps.DeleteFunc(uses, func(_ string, used bool) bool { return !used })
			c.programs = slices.Sorted(maps.Keys(uses))
			return c, nil
		}
	}
	return c, fmt.Errorf("%w: ib_uverbs has no %s", trace.ErrUnsupported, strings.Join(c.missing, ", "))
}

// without returns the programs that do not fit.
func without(programs []string, fits func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(programs), fits)
}
