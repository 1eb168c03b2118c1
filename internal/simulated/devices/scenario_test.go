package devices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

func TestABadScenarioIsOneLineWithFileLineKeyAndWhatIsAllowed(t *testing.T) {
	for _, row := range []struct{ name, text, line, want string }{
		{
			"unknown table", "[[fuss]]\nat = \"1s\"\n", "line 1",
			`fuss: allowed: [[event]], [[link]], [[gid]], [[command]], [[counter]], [[app]], [[fabric]], [[peer]] and [[fault]]`,
		},
		{
			"unknown key at the top", "\nseed = 1\n", "line 2",
			`seed: allowed: [[event]], [[link]], [[gid]], [[command]], [[counter]], [[app]], [[fabric]], [[peer]] and [[fault]]`,
		},
		{"a GID that is not there", "[[gid]]\nindex = 9\n", "line 2", "[[gid]] index: is 9; allowed: 0 to 3"},
		{"a GID in the place of another", "[[gid]]\nto = 0\n", "line 2", "[[gid]] to: is 0, which has another GID"},
		{
			"a table that is no array", "[event]\nat = \"1s\"\n", "line 1",
			"event: allowed: [[event]], [[link]], [[gid]], [[command]], [[counter]], [[app]], [[fabric]], [[peer]] and [[fault]]",
		},
		{"unknown key", "[[link]]\n[[event]]\ntype = \"sm_change\"\ncuont = 2\n", "line 4",
			"[[event]] cuont: unknown key; allowed: at, count, device, every, port, sm_lid, times, type"},
		{"unknown key in the second of two", "[[link]]\nport = 1\n[[link]]\nport = 1\nprot = 1\n", "line 5", "[[link]] prot: unknown key"},
		{"key in another case", "[[link]]\nPort = 1\n", "line 2", "[[link]] Port: unknown key"},
		{"no type", "# a comment\n[[event]]\nat = \"1s\"\n", "line 2", `type: is ""; allowed: cq_err, `},
		{"unknown type", "[[event]]\ntype = \"pkey\"\n", "line 2", `type: is "pkey"; allowed: cq_err, qp_fatal`},
		{"a number that has a name", "[[event]]\ntype = \"unknown_9\"\n", "line 2", `is "unknown_9"; allowed`},
		{"a negative number", "[[event]]\ntype = \"unknown_-1\"\n", "line 2", `is "unknown_-1"; allowed`},
		{"a port where there is none", "[[event]]\ntype = \"device_fatal\"\nport = 1\n", "line 3", "port: unknown key"},
		{"a port that no device has", "[[event]]\ntype = \"sm_change\"\nport = 2\n", "line 3", "port: no device"},
		{"a count of 0", "[[event]]\ntype = \"sm_change\"\ncount = 0\n", "line 3", "count: is 0; allowed: a whole number from 1 to"},
		{"a count of text", "[[event]]\ntype = \"sm_change\"\ncount = \"2\"\n", "line 3", "count: is 2; allowed: a whole number"},
		{"a duration without unit", "[[link]]\nat = 5\n", "line 2", `at: is 5; allowed: a duration such as "1m30s", from "0s" to "87600h0m0s"`},
		{"a negative duration", "[[link]]\nat = \"-5s\"\n", "line 2", `at: is "-5s"; allowed: a duration`},
		{"a duration beyond reason", "[[link]]\nat = \"900000h\"\n", "line 2", "allowed: a duration"},
		{"too often", "[[link]]\nevery = \"1us\"\n", "line 2", `every: is "1us"; allowed: a duration such as "1m30s", from "1ms"`},
		{"times without every", "[[link]]\ntimes = 2\n", "line 2", "times: is 2; allowed: only together with every"},
		{"down for longer than every", "[[link]]\nevery = \"1s\"\ndown_for = \"1s\"\n", "line 3", "allowed: less than every (1s)"},
		{"for ever and again", "[[link]]\nevery = \"1s\"\n", "line 1", "down_for: lasts until the next time"},
		{"a device that is not there", "[[link]]\ndevice = \"mlx5_0\"\n", "line 2", "device: matches no device; allowed: sim0 to sim1, or a glob"},
		{"a bad glob", "[[link]]\ndevice = \"sim[\"\n", "line 2", "device: is no glob"},
		{"a call that is none", "[[command]]\ncall = \"reset\"\n", "line 2", `call: is "reset"; allowed: hw_counters, query_port, query_qp`},
		{"a command that does something else", "[[command]]\nwhat = \"late\"\n", "line 2", `what: is "late"; allowed: hangs, fails, slow`},
		{"an errno that no driver returns", "[[command]]\nstatus = \"EPERM\"\n", "line 2", `status: is "EPERM"; allowed: EBUSY, EIO, ENOLINK`},
		{
			"an event of a port for an application", "[[app]]\nname = \"a\"\nevent = \"port_err\"\n", "line 3",
			`event: is "port_err"; allowed: a type of [[event]] that is of no port`,
		},
		{
			"an event without a name for an application", "[[app]]\nname = \"a\"\nevent = \"unknown_42\"\n", "line 3",
			`event: is "unknown_42"; allowed`,
		},
		{"when an event comes, but not which", "[[app]]\nname = \"a\"\nevent_at = \"1s\"\n", "line 3", "event_at: allowed: only together with event"},
		{
			"an event after the end", "[[app]]\nname = \"a\"\nfor = \"5s\"\nevent = \"cq_err\"\nevent_at = \"5s\"\n", "line 5",
			"event_at: is 5s; allowed: less than for (5s)",
		},
		{
			"events at times without a period", "[[app]]\nname = \"a\"\nevent = \"cq_err\"\nevent_times = 2\n", "line 4",
			"event_times: is 2; allowed: only together with event_every",
		},
		{
			"a flag that is a text", "[[app]]\nname = \"a\"\nevent = \"qp_fatal\"\nevent_skipped = \"yes\"\n", "line 4",
			`event_skipped: is yes; allowed: true or false`,
		},
		{"a read at no time", "[[app]]\nname = \"a\"\nread_after = \"late\"\n", "line 3", `read_after: is "late"; allowed: a duration`},
		{"a hang at no time", "[[app]]\nname = \"a\"\nhang_missing = 2\n", "line 3", "hang_missing: allowed: only together with hang_at"},
		{
			"a hang in what cannot hang", "[[app]]\nname = \"a\"\nhang_at = \"1s\"\nhang_object = \"pd\"\n", "line 4",
			`hang_object: is "pd"; allowed: cq, qp, srq, wq`,
		},
		{
			"a hang without a proof", "[[app]]\nname = \"a\"\nhang_at = \"1s\"\nhang_proof = \"sure\"\n", "line 4",
			`hang_proof: is "sure"; allowed: asleep, waiting`,
		},
		{
			"a tracer of a device", "[[fault]]\nkind = \"tracer_lost\"\ndevice = \"sim0\"\n", "line 3",
			"device: unknown key; allowed: at, every, for, kind, times",
		},
		{
			"a tracer that is refused for no reason", "[[fault]]\nkind = \"tracer_refused\"\nerror = \"limit\"\n", "line 3",
			`error: is "limit"; allowed: no_device, no_permission, unsupported`,
		},
		{"no kind", "[[fault]]\nat = \"1s\"\n", "line 1", `kind: is ""; allowed: completion_error, crash, disturbed, hang_ack`},
		{"a key of another kind", "[[fault]]\nkind = \"crash\"\nfor = \"1s\"\n", "line 3",
			"for: unknown key; allowed: at, device, every, kind, signal, times"},
		{"a bad signal", "[[fault]]\nkind = \"crash\"\nsignal = \"SIGHUP\"\n", "line 3",
			`signal: is "SIGHUP"; allowed: SIGABRT, SIGBUS, SIGKILL, SIGSEGV`},
		{
			"a bad error", "[[fault]]\nkind = \"open_error\"\nerror = \"bad\"\n", "line 3",
			`error: is "bad"; allowed: excluded_netns, limit, no_device`,
		},
		{"a bad status", "[[fault]]\nkind = \"completion_error\"\nstatus = \"bad\"\n", "line 3", `status: is "bad"; allowed: loc_len_err`},
		{"a factor that is no number", "[[fault]]\nkind = \"slow\"\nfactor = nan\n", "line 3", "factor: is NaN; allowed: a number from 1 to"},
		{"no new name", "[[fault]]\nkind = \"renamed\"\ndevice = \"sim0\"\n", "line 1", `to: is ""; allowed: the new name`},
		{"one name for two", "[[fault]]\nkind = \"renamed\"\nto = \"new\"\n", "line 1", "device: matches several devices"},
		{"a name that is taken", "[[fault]]\nkind = \"renamed\"\ndevice = \"sim0\"\nto = \"sim1\"\n", "line 4", "to: is the name of another device"},
		{"a loss of more than all", "[[fabric]]\nloss = 1.5\n", "line 2", "loss: is 1.5; allowed: a number from 0 to 1"},
		{"a direction there is none of", "[[fabric]]\ndirection = \"up\"\n", "line 2", `direction: is "up"; allowed: forward, reverse, both`},
		{"a path there is none of", "[[fabric]]\npath = 4\n", "line 2", `path: is 4; allowed: 0 to 3, "write"`},
		{"a path that is a word", "[[fabric]]\npath = \"read\"\n", "line 2", `path: is read; allowed: 0 to 3, "write"`},
		{"a negative delay", "[[fabric]]\ndelay = \"-1s\"\n", "line 2", `delay: is "-1s"; allowed: a duration`},
		{"hosts that are no glob", "[[fabric]]\nhost = \"[a\"\n", "line 2", "host: is no glob; allowed: the name of a host, or one with"},
		{"a way from no device", "[[fabric]]\ndevice = \"sim9\"\n", "line 2", "device: matches no device; allowed: sim0 to sim1"},
		{"a way from no port", "[[fabric]]\nport = 2\n", "line 2", "port: no device of the profile that is meant has this port"},
		{"a way that is down for a time", "[[fabric]]\ndown_for = \"1s\"\n", "line 2", "down_for: unknown key; allowed: at, delay, device"},
		{"a peer without trouble", "[[peer]]\nhost = \"a\"\n", "line 1", `what: is ""; allowed: busy, down, inactive, refuses, restarts`},
		{"a peer of another kind", "[[peer]]\nwhat = \"dead\"\n", "line 2", `what: is "dead"; allowed: busy, down, inactive`},
		{"hosts of peers that are no glob", "[[peer]]\nwhat = \"down\"\nhost = \"\\\\\"\n", "line 3", "host: is no glob"},
		{"a device of a host that is down", "[[peer]]\nwhat = \"down\"\ndevice = \"sim0\"\n", "line 3",
			"device: unknown key; allowed: at, every, for, host, times, what"},
		{"a refusal without a reason", "[[peer]]\nwhat = \"refuses\"\n", "line 1", `reason: is ""; allowed: full, key, no_common_gid, not_listed`},
		{"a refusal of a host by one port", "[[peer]]\nwhat = \"refuses\"\nreason = \"key\"\nport = 1\n", "line 4", "port: unknown key; allowed: at"},
		{"a busy peer in no time", "[[peer]]\nwhat = \"busy\"\ntook = \"0s\"\n", "line 3", `took: is "0s"; allowed: a duration`},
		{"a peer without such a port", "[[peer]]\nwhat = \"inactive\"\nport = 3\n", "line 3", "port: no device of the profile"},
		{"a peer without such a device", "[[peer]]\nwhat = \"restarts\"\ndevice = \"mlx5_0\"\n", "line 3", "device: matches no device"},
		{"broken syntax", "[[event]]\ntype = \"sm_change\ncount = 2\n", "line 2", "newlines"},
		{"a key twice", "[[link]]\nport = 1\nport = 1\n", "line 3", "already"},
		{"inline tables", "event = [{typ = 1}]\n", "", `[[event]] type: is ""`},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := writeScenario(t, row.text)
			_, err := Load(Options{Profile: "roce2", Scenario: file})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "\n")
			require.Contains(t, err.Error(), row.want)
			if row.line != "" {
				require.Contains(t, err.Error(), "scenario "+file+", "+row.line+": ")
			}
		})
	}
}

func TestAScenarioThatIsNeitherBuiltInNorAFileNamesThoseBuiltIn(t *testing.T) {
	_, err := Load(Options{Profile: "roce2", Scenario: "livly"})
	require.ErrorContains(t, err, `scenario "livly"`)
	require.ErrorContains(t, err, "built in: healthy, fabric, mixed")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAnUnknownProfileNamesThoseAllowed(t *testing.T) {
	for _, name := range []string{"", "roce", "fleet", "fleet0", "fleet257", "fleet-1"} {
		_, err := Load(Options{Profile: name})
		require.ErrorContains(t, err, "allowed: roce2, ib8, dual, iwarp, efa, fleetN", "profile %q", name)
	}
}

func TestEveryBuiltInScenarioFitsEveryProfile(t *testing.T) {
	for _, p := range []string{"roce2", "ib8", "dual", "iwarp", "efa", "fleet1", "fleet256", "mlx5_vf", "qedr"} {
		for _, s := range builtinNames() {
			_, err := Load(Options{Profile: p, Scenario: s})
			require.NoError(t, err, "%s in %s", s, p)
		}
	}
}

func TestMixedScenarioHasEveryKind(t *testing.T) {
	s, _, err := loadScenario("mixed", "")
	require.NoError(t, err)
	kinds := map[faultKind]bool{}
	for _, f := range s.faults {
		kinds[f.kind] = true
		require.LessOrEqual(t, f.every, 60*second)
	}
	for _, k := range []faultKind{crash, removed, lostEvent, lostCompletion, slow, late, spurious, completionError, hangAck} {
		require.True(t, kinds[k], k)
	}
	require.NotEmpty(t, s.links)
	require.NotEmpty(t, s.events)
	require.NotEmpty(t, s.counters)
	require.NotEmpty(t, s.apps)
}

func documentedScenario(t testing.TB) string {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "scenario.md"))
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(text), "```toml\n")
	require.True(t, ok, "the document has an example")
	example, _, ok = strings.Cut(example, "```")
	require.True(t, ok, "the example ends")
	return example
}

func TestTheDocumentedExampleParses(t *testing.T) {
	s, err := parseScenario(documentedScenario(t))
	require.NoError(t, err)
	require.Len(t, s.links, 1)
	require.EqualValues(t, 3, s.links[0].times, "the comment says three flaps")
	require.Len(t, s.events, 2)
	require.Len(t, s.faults, 3)
	require.Len(t, s.apps, 1)
	require.Len(t, s.conditions, 1)
	require.Len(t, s.peers, 1)
	mustLoad(t, Options{Profile: "roce2", Scenario: writeScenario(t, documentedScenario(t))})
}

func TestTheDocumentKnowsEveryKindOfFaultAndPeerAndEveryProfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "scenario.md"))
	require.NoError(t, err)
	for kind := range faultReaders() {
		require.Contains(t, string(text), "| `"+string(kind)+"` |")
	}
	for what := range peerReaders() {
		require.Contains(t, string(text), "| `"+string(what)+"` |")
	}
	for reason := range allRefusals() {
		require.Contains(t, string(text), "`\""+string(reason)+"\"`")
	}
	for _, name := range strings.Split(profileNames[:strings.Index(profileNames, " (")], ", ") {
		require.Contains(t, string(text), "| `"+name+"` |")
	}
}

func FuzzParse(f *testing.F) {
	mixed, err := readSource("mixed")
	require.NoError(f, err)
	f.Add(documentedScenario(f))
	f.Add(mixed)
	f.Add("[[event]]\ntype = 'unknown_42'\nevery = '1ms'\ntimes = 1000000000\ncount = 1000000000\n")
	f.Add("event = [{at = '1s', type = 'sm_change'}]\nlink = [1]\n")
	f.Add("[[fault]]\nkind = 'slow'\nfactor = inf\n[[fault]]\nat = 1979-05-27\n")
	f.Add("[[fault]]\nkind = 'renamed'\nto = 'x'\ndevice = 'sim0'\nevery = '2ms'\nfor = '1ms'\n")
	f.Add("[[\"link\"]]\n\"down_for\" = '87600h'\nat = '87600h'\n")
	f.Add("[[app]]\nname = 'a'\nevent = 'qp_fatal'\nevent_every = '1ms'\nread_after = 'never'\nhang_at = '1s'\n")
	network, err := readSource("fabric")
	require.NoError(f, err)
	f.Add(network)
	f.Add("[[fabric]]\npath = 'write'\nloss = 1e-9\ndelay = '87600h'\nhost = '[a'\n")
	f.Add("[[fabric]]\npath = 4\nevery = '2ms'\nfor = '1ms'\ntimes = 3\n[[peer]]\nwhat = 'restarts'\nevery = '2ms'\nfor = '1ms'\n")
	f.Add("peer = [{what = 'stopped'}, {what = 'down', at = '1s'}, {what = 'refuses', reason = 'pkey', port = 2}]\n")
	f.Add("a = 'b")
	f.Add("[[\"\\nk\"]]")
	f.Add("[[event]]\ntype = 'sm_change'\n\"\\nk\" = 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseScenario(text)
		if err == nil {
			w := &World{clock: clock.Monotonic, tracer: map[faultKind][]fault{}}
			w.hardware = []*hardware{newHardware(0, dualSpec(0))}
			if err = w.plan(s, second); err == nil {
				runWorld(w)
			}
		}
		if err != nil && strings.Contains(addLocation("x", text, err).Error(), "\n") {
			t.Errorf("more than one line: %q", addLocation("x", text, err))
		}
	})
}

// runPeer meets a host and probes it, at the moments of its changes.
func (w *World) runPeer(host string) {
	peer, at := w.Peer(host), int64(0)
	for range 20 {
		ports := peer.Ports(at)
		peer.Answers(at)
		peer.Refuses(at)
		r := &remote{remotePort: w.remotePort(host, ports[0].Device, 1), conditions: w.conditions, wire: 1000}
		r.peer = verbs.FabricPeer{UD: ports[0].UD, QKey: ports[0].QKey, Session: 1}
		if ports[0].Epoch != 0 {
			if echo, ok := r.echoProbe(0, 1, at); ok && echo.at <= at {
				panic("an echo is there before its probe")
			}
		}
		next, ok := peer.NextChange(at)
		if !ok {
			return
		}
		if next <= at {
			panic("time goes back")
		}
		at = next
	}
}

// runWorld queries a world at the moments of its changes.
func runWorld(w *World) {
	at := int64(0)
	for range 20 {
		w.Devices(at)
		next, ok := w.NextChange(at)
		if !ok {
			break
		}
		if next <= at {
			panic("time goes back")
		}
		at = next
	}
	w.hardware[0].advance(60 * second)
	w.runPeer("gpu13")
	w.AppSteps(second-int64(time.Millisecond), second)
	w.AppQueues(60 * second)
}
