package ebpf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rdma_events/internal/applications/trace"
)

// feature is a kind of data that a tracer collects, with the programs that it needs. If the function of one of them is missing, the feature
// is off. Other features continue.
type feature struct {
	name     string
	programs []string
	// oneOf has programs of which one is sufficient, because kernels differ in the functions that they call.
	oneOf []string
}

func allFeatures() []feature {
	return []feature{
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

// optionalPrograms returns programs that may be missing individually. Without them, the destroyed object of a hang has no number.
func optionalPrograms() []string {
	return []string{traceProgCqGoes, traceProgQpGoes, traceProgSrqGoes, traceProgWqGoes}
}

// choice has the programs that can be attached to a kernel, and the functions that it lacks.
type choice struct {
	programs []string
	missing  []string // functions, in alphabetical order
}

// choosePrograms chooses the programs for a kernel. functions has the function of each program, or "" if the program needs none. has
// reports whether the kernel has a function.
func choosePrograms(functions map[string]string, has func(function string) bool) (choice, error) {
	fits := func(program string) bool { return functions[program] == "" || has(functions[program]) }
	lacks := map[string]bool{}
	uses := map[string]bool{}
	for _, p := range allFeatures() {
		wanted, missing := p.programs, programsWithout(p.programs, fits)
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
	for _, program := range optionalPrograms() {
		if uses[program] = fits(program); !uses[program] {
			lacks[functions[program]] = true
		}
	}
	c := choice{missing: slices.Sorted(maps.Keys(lacks))}
	for _, p := range allFeatures() {
		if uses[p.programs[0]] {
			maps.DeleteFunc(uses, func(_ string, used bool) bool { return !used })
			c.programs = slices.Sorted(maps.Keys(uses))
			return c, nil
		}
	}
	return c, fmt.Errorf("%w: ib_uverbs has no %s", trace.ErrUnsupported, strings.Join(c.missing, ", "))
}

// programsWithout returns the programs that do not fit.
func programsWithout(programs []string, fits func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(programs), fits)
}
