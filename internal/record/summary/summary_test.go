package summary

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/record/recorder"
	"rdma_events/internal/record/timeline"
)

// The window of the tests is from 10:00 to 11:00.
func clockTime(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.ParseInLocation("2006-01-02 15:04:05", "2026-11-26 "+text, time.Local)
	require.NoError(t, err)
	return at
}

// story builds the records of one host.
type story struct {
	t    *testing.T
	host string
	all  []timeline.StoredRecord
}

func (s *story) add(at string, r timeline.Record) *story {
	s.t.Helper()
	r.Time = clockTime(s.t, at)
	s.all = append(s.all, timeline.StoredRecord{Host: s.host, BootID: "boot", Record: r})
	return s
}

func (s *story) port(at, device, from, to, event string) *story {
	r := timeline.Record{Kind: timeline.KindState, Device: device, Port: 1, StateFrom: from, StateTo: to}
	if event != "" {
		r.Kind, r.Event, r.Count = timeline.KindEvent, event, 1
	}
	return s.add(at, r)
}

func (s *story) look(at, device, state string) *story {
	return s.add(at, timeline.Record{Kind: timeline.KindPort, Device: device, Port: 1, StateTo: state, Link: &timeline.Link{}})
}

func (s *story) app(at, device, unit, event string, number uint32) *story {
	return s.add(at, timeline.Record{Kind: timeline.KindAppEvent, Device: device, Event: event, Count: 1, App: &timeline.App{
		Name: "python3", PID: 4711, Unit: unit, Object: "qp", Number: number,
	}})
}

func (s *story) traced(at string) *story {
	return s.add(at, timeline.Record{Kind: timeline.KindTracer, Tracer: &timeline.Tracer{Attached: true}})
}

func (s *story) held(at, device, name, unit string, gone bool) *story {
	return s.add(at, timeline.Record{Kind: timeline.KindAppHolds, Device: device, App: &timeline.App{Name: name, Unit: unit}, Held: &timeline.Held{Gone: gone}})
}

func (s *story) stuck(at string, stuck bool) *story {
	return s.add(at, timeline.Record{Kind: timeline.KindCommand, Device: "mlx5_0", Port: 1, Command: &timeline.Command{Call: "hw_counters", Stuck: stuck}})
}

func (s *story) alive(at string) *story {
	s.add(at, timeline.Record{Kind: recorder.KindAlive})
	s.all[len(s.all)-1].Alive = &recorder.Alive{AliveNS: int64(10 * time.Minute)}
	return s
}

func (s *story) restart(at, last, lastBoot string, clean bool) *story {
	s.add(at, timeline.Record{Kind: recorder.KindStart})
	s.all[len(s.all)-1].Start = &recorder.Start{Clean: clean, LastSequence: 7, LastTime: clockTime(s.t, last), LastBootID: lastBoot}
	return s
}

// healthyStory returns the first records of a host with two active ports.
func healthyStory(t *testing.T, host string) *story {
	s := &story{t: t, host: host}
	return s.traced("08:00:00").look("08:00:01", "mlx5_0", "active").look("08:00:01", "mlx5_1", "active")
}

// summaryLines returns the summary of the window without its first line and without the day. It replaces several blanks by one.
func summaryLines(t *testing.T, unit string, stories ...*story) []string {
	t.Helper()
	s := New(Query{Since: clockTime(t, "10:00:00"), Until: clockTime(t, "11:00:00"), Unit: unit})
	for _, one := range stories {
		for i := range one.all {
			s.Add(&one.all[i])
		}
	}
	var all []string
	for _, line := range s.Lines()[1:] {
		line = strings.ReplaceAll(strings.Join(strings.Fields(line), " "), "2026-11-26 ", "")
		all = append(all, strings.ReplaceAll(line, ".000", ""))
	}
	return all
}

const nothing = "first nothing broke here in this time, as far as it was recorded"

const unheardOf = `missing no record read here names job_12: check the name; units need applications.by = ["app", "unit"], ` +
	"and those without errors applications.objects"

const restarted = "missing 10:19:58 to 10:20:00 n1 nothing recorded: the plugin was restarted"

// The rows were written before the code, so that they state what is expected.
func TestWhatBrokeFirst(t *testing.T) {
	for name, row := range map[string]struct {
		unit string
		of   func(t *testing.T) []*story
		want []string
	}{
		"a healthy host": {of: func(t *testing.T) []*story { return []*story{healthyStory(t, "n1")} }, want: []string{nothing}},
		"a unit that no record names, perhaps by a typing error": {
			unit: "job_12",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").held("09:00:00", "mlx5_0", "python3", "job_1", false)}
			},
			want: []string{nothing, unheardOf},
		},
		"a unit of yesterday, which a typing error names instead": {
			unit: "job_12",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").held("08:30:00", "mlx5_0", "python3", "job_12", false).
					held("09:00:00", "mlx5_0", "python3", "job_12", true)}
			},
			want: []string{nothing, unheardOf},
		},
		"a unit without a fault, which held a device": {
			unit: "job_1",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").held("09:00:00", "mlx5_0", "python3", "job_1", false)}
			},
			want: []string{nothing},
		},
		"a flap": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1"), healthyStory(t, "n2").port("10:12:00", "mlx5_1", "active", "down", "port_err").
					port("10:12:04", "mlx5_1", "down", "active", "port_active")}
			},
			want: []string{"first 10:12:00 n2 mlx5_1:1 went down (port_err); recovered after 4s"},
		},
		"an event and its change that were recorded apart": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n2").port("10:12:00", "mlx5_1", "active", "active", "port_err").
					port("10:12:00", "mlx5_1", "active", "active", "gid_change").port("10:12:00", "mlx5_1", "active", "down", "").
					port("10:12:04", "mlx5_1", "down", "active", "")}
			},
			want: []string{"first 10:12:00 n2 mlx5_1:1 went down (port_err); recovered after 4s"},
		},
		"several flaps of a port": {
			of: func(t *testing.T) []*story {
				s := healthyStory(t, "n2")
				for _, minute := range []string{"12", "13", "14"} {
					s.port("10:"+minute+":00", "mlx5_1", "active", "down", "port_err").port("10:"+minute+":04", "mlx5_1", "down", "active", "port_active")
				}
				return []*story{s}
			},
			want: []string{"first 10:12:00 n2 mlx5_1:1 went down (port_err), 3 times, last at 10:14:00; recovered at 10:14:04"},
		},
		"a flap with its cause, and what followed in a job": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				a := healthyStory(t, "n1").app("10:12:03", "mlx5_0", "job_1234", "qp_fatal", 1).app("10:12:03", "mlx5_0", "job_99", "qp_fatal", 2)
				b := healthyStory(t, "n2").port("10:12:00", "mlx5_1", "active", "down", "port_err").
					add("10:12:00", timeline.Record{Kind: timeline.KindEvidence, Device: "mlx5_1", Port: 1, Evidence: &timeline.Evidence{Cause: "no_carrier"}})
				for i := range 13 {
					b.app("10:12:02", "mlx5_1", "job_1234", "qp_fatal", uint32(i+10))
				}
				return []*story{a, b}
			},
			want: []string{
				"first 10:12:00 n2 mlx5_1:1 went down (port_err), cause no_carrier; not recovered",
				"then 10:12:02 n2 mlx5_1 14 times qp_fatal of python3 (job_1234), and on 1 more host",
				"missing which devices job_1234 held on n2: the faults of all of them are here",
			},
		},
		"a device fatal": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").add("10:12:00", timeline.Record{Kind: timeline.KindEvent, Device: "mlx5_0", Event: "device_fatal", Count: 1}).
					add("10:12:01", timeline.Record{Kind: timeline.KindDevice, Device: "mlx5_0", Reason: "removed"}).
					port("10:12:01", "mlx5_0", "active", "absent", "").
					add("10:12:09", timeline.Record{Kind: timeline.KindDevice, Device: "mlx5_0", Reason: "ok", Opened: &timeline.Opened{}}).
					look("10:12:09", "mlx5_0", "active")}
			},
			want: []string{"first 10:12:00 n1 mlx5_0 device_fatal; recovered after 9s"},
		},
		"a flap of a device that the job did not use, and later one of a device that it used": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").held("09:58:00", "mlx5_0", "python3", "job_1234", false).
					held("09:59:00", "mlx5_1", "python3", "job_99", false).held("09:59:00", "mlx5_1", "sshd", "", false).
					port("10:12:00", "mlx5_1", "active", "down", "port_err").port("10:12:04", "mlx5_1", "down", "active", "port_active").
					port("10:30:00", "mlx5_0", "active", "down", "port_err").held("10:40:00", "mlx5_0", "python3", "job_1234", true)}
			},
			want: []string{
				"first 10:30:00 n1 mlx5_0:1 went down (port_err); not recovered",
				"left out 1 fault of n1 mlx5_1, which job_1234 did not hold",
			},
		},
		"a flap of a device whose user may have been the job": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").held("09:58:00", "mlx5_0", "python3", "job_1234", false).
					held("09:58:00", "mlx5_1", "other", "", false).port("10:12:00", "mlx5_1", "active", "down", "port_err")}
			},
			want: []string{"first 10:12:00 n1 mlx5_1:1 went down (port_err); not recovered"},
		},
		"flaps on a host that has recorded no user of its devices, and on one that has": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				return []*story{
					healthyStory(t, "n1").port("10:12:00", "mlx5_1", "active", "down", "port_err"),
					healthyStory(t, "n2").port("10:11:00", "mlx5_1", "active", "down", "port_err").held("10:11:10", "mlx5_0", "python3", "job_1234", false),
				}
			},
			want: []string{
				"first 10:12:00 n1 mlx5_1:1 went down (port_err); not recovered",
				"left out 1 fault of n2 mlx5_1, which job_1234 did not hold",
				"missing which devices job_1234 held on n1: the faults of all of them are here",
			},
		},
		"the host went down, and a device that the job did not use": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").held("09:58:00", "mlx5_0", "python3", "job_1234", false).
					add("10:12:00", timeline.Record{Kind: timeline.KindDevice, Device: "mlx5_1", Reason: "removed"}).
					restart("10:30:00", "10:20:00", "before", false)}
			},
			want: []string{
				"first 10:20:00 n1 host went down without an end of the record: crash, power or a kill",
				"left out 1 fault of n1 mlx5_1, which job_1234 did not hold",
				"missing 10:20:00 to 10:30:00 n1 nothing recorded: the host was booted",
			},
		},
		"an application's error with no fault of a device before it": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").app("10:12:03", "mlx5_0", "job_1234", "qp_access_err", 1).
					port("10:30:00", "mlx5_1", "active", "down", "port_err")}
			},
			want: []string{
				"first 10:12:03 n1 mlx5_0 qp_access_err of python3 (job_1234)",
				"no fault of a device or port was recorded before it: the application broke first",
				"then 10:30:00 n1 mlx5_1:1 went down (port_err); not recovered",
				"missing which devices job_1234 held on n1: the faults of all of them are here",
			},
		},
		"an application's error after a fault of its device, of which no holder was recorded": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").held("09:58:00", "mlx5_0", "python3", "job_1234", false).
					port("10:12:00", "mlx5_1", "active", "down", "port_err").app("10:12:03", "mlx5_1", "job_1234", "qp_fatal", 1)}
			},
			want: []string{
				"first 10:12:00 n1 mlx5_1:1 went down (port_err); not recovered",
				"then 10:12:03 n1 mlx5_1 qp_fatal of python3 (job_1234)",
			},
		},
		"a quiet host, one that was stopped, one whose record ends early, and one of a version that does not tell": {
			of: func(t *testing.T) []*story {
				return []*story{
					healthyStory(t, "n1").alive("10:55:00"), healthyStory(t, "n2").alive("09:30:00").add("10:20:00", timeline.Record{Kind: recorder.KindEnd}),
					healthyStory(t, "n3").alive("10:30:00"), healthyStory(t, "n4"),
				}
			},
			want: []string{
				nothing,
				"missing no record of n2 after 10:20:00: the plugin was stopped",
				"missing no record of n3 after 10:30:00: the plugin or the host ended without a record, or the copy is of that time",
			},
		},
		"a port that was down before the window": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").port("09:12:00", "mlx5_0", "active", "down", "port_err")}
			},
			want: []string{nothing, "already since 09:12:00 n1 mlx5_0:1 went down (port_err); not recovered"},
		},
		"a port that was down before the window, came back within it and fell again": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").port("09:12:00", "mlx5_0", "active", "down", "port_err").
					port("10:12:00", "mlx5_0", "down", "active", "port_active").port("10:13:00", "mlx5_0", "active", "down", "port_err")}
			},
			want: []string{
				"first 10:13:00 n1 mlx5_0:1 went down (port_err); not recovered",
				"already since 09:12:00 n1 mlx5_0:1 went down (port_err); recovered at 10:12:00",
			},
		},
		"a flap that was over before the window": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").port("09:12:00", "mlx5_0", "active", "down", "port_err").port("09:12:01", "mlx5_0", "down", "active", "port_active")}
			},
			want: []string{nothing},
		},
		"a flap after the window": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").port("11:12:00", "mlx5_0", "active", "down", "port_err")}
			},
			want: []string{nothing},
		},
		"a port that recovers after the window": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").port("10:59:00", "mlx5_0", "active", "down", "port_err").port("11:12:00", "mlx5_0", "down", "active", "port_active")}
			},
			want: []string{"first 10:59:00 n1 mlx5_0:1 went down (port_err); recovered at 11:12:00, after this time"},
		},
		"an unrelated port, a change of GIDs, events of the subnet manager": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").
					add("10:01:00", timeline.Record{Kind: timeline.KindEvent, Device: "mlx5_0", Port: 1, Event: "port_err", Count: 1, StateFrom: "active",
						StateTo: "down", Expected: "down"}).
					add("10:02:00", timeline.Record{Kind: timeline.KindGID, Device: "mlx5_1", Port: 1, GID: &timeline.GID{Action: "removed"}}).
					port("10:02:00", "mlx5_1", "active", "active", "gid_change").port("10:03:00", "mlx5_1", "active", "active", "sm_change").
					add("10:04:00", timeline.Record{Kind: timeline.KindAttr, Device: "mlx5_1", Port: 1, Attr: &timeline.Attr{Name: "mtu"}})}
			},
			want: []string{nothing},
		},
		"a restart of the plugin": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").restart("10:10:02", "10:10:00", "boot", true).look("10:10:03", "mlx5_0",
					"active").look("10:10:03", "mlx5_1", "active")}
			},
			want: []string{nothing, "missing 10:10:00 to 10:10:02 n1 nothing recorded: the plugin was restarted"},
		},
		"a port that fell while nothing was recorded": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").restart("10:20:00", "10:10:00", "boot", false).look("10:20:01", "mlx5_0", "down").
					look("10:20:01", "mlx5_1", "active")}
			},
			want: []string{
				"first 10:20:01 n1 mlx5_0:1 found down when recording went on; not recovered",
				"missing 10:10:00 to 10:20:00 n1 nothing recorded: the plugin was restarted",
			},
		},
		"a host that went down": {
			of: func(t *testing.T) []*story {
				a := healthyStory(t, "n1").restart("10:20:00", "10:10:00", "boot before", false)
				b := healthyStory(t, "n2").add("10:10:02", timeline.Record{Kind: timeline.KindFabricPeer, Device: "mlx5_0", Port: 1,
					Peer: &timeline.Peer{Host: "n1", Verdict: "peer_down"}})
				return []*story{b, a}
			},
			want: []string{
				"first 10:10:00 n1 host went down without an end of the record: crash, power or a kill",
				"then 10:10:02 n2 mlx5_0:1 verdict peer_down about n1",
				"missing 10:10:00 to 10:20:00 n1 nothing recorded: the host was booted",
			},
		},
		"a device that a pod has borrowed, or that was released": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").add("10:12:01", timeline.Record{Kind: timeline.KindDevice, Device: "mlx5_0", Reason: "other_netns"}).
					port("10:12:01", "mlx5_0", "active", "absent", "").
					add("10:13:01", timeline.Record{Kind: timeline.KindDevice, Device: "mlx5_1", Reason: "released"})}
			},
			want: []string{nothing},
		},
		"a command that firmware does not answer, and a hang": {
			of: func(t *testing.T) []*story {
				app := &timeline.App{Name: "python3", Unit: "job_1234", Object: "qp", Number: 4}
				return []*story{healthyStory(t, "n1").
					add("10:12:00", timeline.Record{Kind: timeline.KindCommand, Device: "mlx5_0", Port: 1, Command: &timeline.Command{Call: "query_port", Stuck: true}}).
					add("10:12:10", timeline.Record{Kind: timeline.KindAppHang, Device: "mlx5_0", App: app, Hang: &timeline.Hang{Threads: 1}}).
					add("10:12:30", timeline.Record{Kind: timeline.KindCommand, Device: "mlx5_0", Port: 1, Command: &timeline.Command{Call: "query_port"}})}
			},
			want: []string{
				"first 10:12:00 n1 mlx5_0:1 does not answer query_port; recovered after 30s",
				"then 10:12:10 n1 mlx5_0 hangs in destroy of qp of python3 (job_1234); not recovered",
			},
		},
		"a command that was stuck before the plugin was restarted, and is stuck again": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").stuck("08:30:00", true).restart("09:00:00", "08:59:00", "boot", true).stuck("10:12:00", true)}
			},
			want: []string{"first 10:12:00 n1 mlx5_0:1 does not answer hw_counters; not recovered"},
		},
		"a command that is stuck while the plugin is restarted": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").stuck("10:12:00", true).restart("10:20:00", "10:19:58", "boot", true).stuck("10:20:45", true).
					stuck("10:30:00", false)}
			},
			want: []string{"first 10:12:00 n1 mlx5_0:1 does not answer hw_counters; recovered after 18m0s", restarted},
		},
		"a command that was stuck until the plugin was restarted": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").stuck("10:12:00", true).restart("10:20:00", "10:19:58", "boot", true)}
			},
			want: []string{"first 10:12:00 n1 mlx5_0:1 does not answer hw_counters; not noted again since the plugin was restarted at 10:20:00", restarted},
		},
		"a port that is down while the plugin is restarted": {
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").port("10:12:00", "mlx5_0", "active", "down", "").restart("10:20:00", "10:19:58", "boot", true).
					look("10:20:01", "mlx5_0", "down")}
			},
			want: []string{"first 10:12:00 n1 mlx5_0:1 went down; not recovered", restarted},
		},
		"events of applications of another unit, and of an unknown one": {
			unit: "job_1234",
			of: func(t *testing.T) []*story {
				return []*story{healthyStory(t, "n1").app("10:12:03", "mlx5_0", "job_99", "qp_fatal", 1).app("10:12:03", "mlx5_0", "", "qp_fatal", 1).
					app("10:13:00", "mlx5_0", "job_1234", "comm_est", 1)}
			},
			want: []string{nothing, "missing the unit of applications with errors (1), which may be job_1234 or not"},
		},
		"a record that begins late, without a tracer": {
			of: func(t *testing.T) []*story {
				return []*story{(&story{t: t, host: "n1"}).look("10:10:00", "mlx5_0", "down")}
			},
			want: []string{
				nothing, "already before 10:00:00 n1 mlx5_0:1 down at the first look; not recovered",
				"missing the record of n1 begins at 10:10:00",
				"missing applications were not traced on n1: their errors are not here",
			},
		},
		"lost records and a clock that was set": {
			of: func(t *testing.T) []*story {
				s := healthyStory(t, "n1").add("10:10:00", timeline.Record{}).add("10:20:00", timeline.Record{})
				s.all[len(s.all)-2].Lost = &recorder.Lost{Count: 12, Since: clockTime(t, "10:09:00")}
				s.all[len(s.all)-1].Clock = &recorder.Clock{StepNS: int64(-3 * time.Second)}
				return []*story{s}
			},
			want: []string{
				nothing, "missing 10:09:00 to 10:10:00 n1 12 records lost",
				"missing 10:20:00 n1 the wall clock was set 3s back: times before and after cannot be compared",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, summaryLines(t, row.unit, row.of(t)...))
			stories := row.of(t)
			slices.Reverse(stories)
			require.Equal(t, row.want, summaryLines(t, row.unit, stories...), "the order of the hosts does not count")
		})
	}
}

func TestSummaryNamesItsHostsAndItsTime(t *testing.T) {
	s := New(Query{Since: clockTime(t, "10:00:00"), Until: clockTime(t, "11:00:00"), Unit: "job_1"})
	s.AddHost("n1")
	require.Equal(t, "summary  n1, from 2026-11-26 10:00:00.000, until 2026-11-26 11:00:00.000, unit job_1", s.Lines()[0])
	s.AddHost("n2")
	require.Equal(t, "summary  2 hosts", New(Query{}).subjectOf("n1", "n2"))
}

func (s *Summary) subjectOf(hosts ...string) string {
	for _, name := range hosts {
		s.AddHost(name)
	}
	return s.Lines()[0]
}

// A directory may come from an untrusted source.
func TestSummaryIsBoundedWhateverTheRecordsHold(t *testing.T) {
	s := New(Query{})
	const many = 2 * maxPlaces
	for i := range many {
		k := timeline.StoredRecord{Host: "n1", Record: timeline.Record{Time: time.Unix(int64(i), 0), Kind: timeline.KindEvent, Device: fmt.Sprint("d", i), Port: 1,
			Event: "port_err", Count: 1, StateFrom: "active", StateTo: "down"}}
		s.Add(&k)
		s.AddUnread("n1", "damaged")
	}
	require.LessOrEqual(t, len(s.places), maxPlaces)
	require.Len(t, s.faults, maxFaults)
	require.Len(t, s.groups, maxFaults)
	require.Len(t, s.gaps, maxGaps)
	all := s.Lines()
	require.Contains(t, all[1], "n1 d0:1  went down (port_err); not recovered")
	require.Contains(t, strings.Join(all, "\n"), fmt.Sprintf("and %d more\n", many-1-maxThen))
	require.Less(t, len(all), 1+1+maxThen+1+maxAlready+1+maxMissing+1+3)
}

// If the records are read before the window ends, they cannot extend to its end.
func TestRecordNeedNotGoOnUntilTheEndOfALaterWindow(t *testing.T) {
	s := New(Query{Since: clockTime(t, "10:00:00"), Until: clockTime(t, "12:00:00"), Now: clockTime(t, "10:35:00")})
	for _, k := range healthyStory(t, "n1").alive("10:30:00").all {
		s.Add(&k)
	}
	require.NotContains(t, strings.Join(s.Lines(), "\n"), "missing")
}
