package ebpf

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
)

// functionsOf returns the function of each program in the compiled object.
func functionsOf(t *testing.T) map[string]string {
	t.Helper()
	spec, err := loadTrace()
	require.NoError(t, err)
	functions := map[string]string{}
	for name, p := range spec.Programs {
		if functions[name] = p.AttachTo; p.Type == ebpf.Tracing {
			functions[name] = ""
		}
	}
	return functions
}

func TestEveryProgramIsOfAPart(t *testing.T) {
	var named []string
	for _, p := range allFeatures() {
		named = append(append(named, p.programs...), p.oneOf...)
	}
	named = append(named, optionalPrograms()...)
	slices.Sort(named)
	require.Equal(t, slices.Sorted(maps.Keys(functionsOf(t))), slices.Compact(named))
}

func TestAKernelLacksWhatItLacksAndTheRestGoesOn(t *testing.T) {
	functions := functionsOf(t)
	all := slices.Sorted(maps.Keys(functions))
	without := func(programs ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(programs, p) })
	}
	const old, recent = "uverbs_async_event_release", "uverbs_async_event_free_event_queue"
	for name, c := range map[string]struct {
		lacks, missing, want []string
	}{
		"Linux 6.1":  {[]string{recent}, nil, without("freed")},
		"Linux 7.3":  {[]string{old}, nil, without("closed")},
		"no numbers": {[]string{recent, "uverbs_free_wq"}, []string{"uverbs_free_wq"}, without("freed", "wq_goes")},
		"no events": {
			[]string{recent, "ib_uverbs_qp_event_handler"},
			[]string{"ib_uverbs_qp_event_handler"}, []string{"cq_goes", "cq_gone", "object_gone", "qp_goes", "sights", "srq_goes", "wq_goes"},
		},
		"no end of a queue": {
			[]string{recent, old}, []string{old},
			[]string{"cq_goes", "cq_gone", "object_gone", "qp_goes", "sights", "srq_goes", "wq_goes"},
		},
		"no hangs": {[]string{recent, "ib_uverbs_release_ucq"}, []string{"ib_uverbs_release_ucq"}, without("freed", "cq_gone", "sights")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choosePrograms(functions, func(function string) bool { return !slices.Contains(c.lacks, function) })
			require.NoError(t, err)
			require.Equal(t, choice{programs: c.want, missing: c.missing}, got)
		})
	}
	_, err := choosePrograms(functions, func(string) bool { return false })
	require.ErrorIs(t, err, trace.ErrUnsupported)
	require.ErrorContains(t, err, "ib_uverbs has no ib_uverbs_async_event_read, ")
}

// The programs have space for every event type, and count the events of objects and of the device.
func TestTheTypesOfEventsAreThoseOfVerbs(t *testing.T) {
	spec, err := loadTrace()
	require.NoError(t, err)
	require.NoError(t, setTypes(spec))
	var counted, errs uint32
	require.NoError(t, spec.Variables["counted"].Get(&counted))
	require.NoError(t, spec.Variables["errors"].Get(&errs))
	require.LessOrEqual(t, trace.Types, len(traceApp{}.Queued))
	for typ := range verbs.EventType(32) {
		known := typ.Known() && typ.Scope() != verbs.ScopePort
		require.Equal(t, known, counted>>typ&1 == 1, typ)
		require.Equal(t, trace.IsError(typ), errs>>typ&1 == 1, typ)
	}
}
