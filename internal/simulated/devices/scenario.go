package devices

import (
	"embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"rdma_events/internal/device/verbs"
)

//go:embed scenarios/*.toml
var builtin embed.FS

// healthy is the scenario without entries.
const healthy = "healthy"

// scenario is a parsed timeline before it is applied to devices.
type scenario struct {
	events     []eventEntry
	links      []linkEntry
	gids       []gidEntry
	faults     []fault
	commands   []commandEntry
	counters   []counterEntry
	apps       []appEntry
	conditions []conditionEntry
	peers      []peerEntry
}

// target selects the devices and ports of an entry.
type target struct {
	device string // a glob
	port   int    // 0: all
}

type eventEntry struct {
	target
	schedule
	typ   verbs.EventType
	count uint64
	smLID int // LID of the subnet manager after an sm_change; 0: unchanged
	index int // index of its table, for errors
}

type linkEntry struct {
	target
	window
	lanes int    // number of lanes when the link comes up again; 0: all
	why   string // noCarrier, setDown, or one of extStates
	index int
}

// loadScenario returns the scenario with a name, which is "", a built-in name or a file.
// If text is not "", it parses text instead. locate adds the name of the scenario to an
// error, and the line if the text is available.
func loadScenario(name, text string) (s scenario, locate func(error) error, err error) {
	locate = func(err error) error { return fmt.Errorf("scenario %s: %w", name, err) }
	if text != "" {
		name = "text"
	} else if name == "" || name == healthy {
		return scenario{}, locate, nil
	} else if text, err = readSource(name); err != nil {
		return scenario{}, locate, err
	}
	locate = func(err error) error { return addLocation(name, text, err) }
	s, err = parseScenario(text)
	if err != nil {
		return scenario{}, locate, locate(err)
	}
	return s, locate, nil
}

func readSource(name string) (string, error) {
	if slices.Contains(builtinNames(), name) {
		text, err := builtin.ReadFile("scenarios/" + name + ".toml")
		return string(text), err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("scenario %q is not a readable file (%w) and not built in; built in: %s",
			name, err, strings.Join(builtinNames(), ", "))
	}
	return string(text), nil
}

func builtinNames() []string {
	names := []string{healthy}
	files, _ := builtin.ReadDir("scenarios") // an embedded directory is always readable
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".toml"))
	}
	return names
}

// parseScenario parses a timeline. It decodes to plain maps, because the decoder itself
// ignores the case of keys and does not report in which of several tables a key is.
func parseScenario(text string) (scenario, error) {
	var top map[string]any
	if _, err := toml.Decode(text, &top); err != nil {
		return scenario{}, err
	}
	var s scenario
	read := map[string]func(*table){
		"event":   func(t *table) { s.events = append(s.events, readEvent(t)) },
		"link":    func(t *table) { s.links = append(s.links, readLink(t)) },
		"gid":     func(t *table) { s.gids = append(s.gids, readGID(t)) },
		"fault":   func(t *table) { s.faults = append(s.faults, readFault(t)) },
		"command": func(t *table) { s.commands = append(s.commands, readCommand(t)) },
		"counter": func(t *table) { s.counters = append(s.counters, readCounterEntry(t)) },
		"app":     func(t *table) { s.apps = append(s.apps, readApp(t)) },
		"fabric":  func(t *table) { s.conditions = append(s.conditions, readCondition(t)) },
		"peer":    func(t *table) { s.peers = append(s.peers, readPeer(t)) },
	}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if err := readTables(name, top[name], read[name]); err != nil {
			return scenario{}, err
		}
	}
	return s, nil
}

func readTables(name string, value any, read func(*table)) error {
	tables, ok := tablesOf(value)
	if read == nil || !ok {
		return &problem{key: name, text: "allowed: [[event]], [[link]], [[gid]], [[command]], [[counter]], [[app]], [[fabric]], " +
			"[[peer]] and [[fault]]"}
	}
	for i, values := range tables {
		t := &table{name: name, index: i, values: values}
		read(t)
		if err := t.finish(); err != nil {
			return err
		}
	}
	return nil
}

// tablesOf accepts both spellings of an array of tables: [[x]] and x = [{}].
func tablesOf(value any) ([]map[string]any, bool) {
	if tables, ok := value.([]map[string]any); ok {
		return tables, true
	}
	values, ok := value.([]any)
	tables := make([]map[string]any, len(values))
	for i, v := range values {
		t, isTable := v.(map[string]any)
		tables[i], ok = t, ok && isTable
	}
	return tables, ok
}

func readTarget(t *table, withPort bool) target {
	to := target{device: t.text("device", "*")}
	if withPort {
		to.port = int(t.integer("port", 0, 1, 255))
	}
	return to
}

func readEvent(t *table) eventEntry {
	name := t.text("type", "")
	typ, ok := verbs.ParseEventType(name)
	// The comparison with String rejects spellings such as unknown_9, a number
	// that has a name.
	if !ok || typ < 0 || typ.String() != name {
		t.fail("type", "is %q; allowed: %s, unknown_<number>", name, strings.Join(eventNames(), ", "))
	}
	e := eventEntry{
		target:   readTarget(t, typ.Scope() == verbs.ScopePort),
		schedule: t.schedule(""),
		typ:      typ,
		count:    uint64(t.integer("count", 1, 1, 1e9)),
		index:    t.index,
	}
	if typ == verbs.EventSMChange {
		e.smLID = int(t.integer("sm_lid", 0, 1, 0xbfff))
	}
	return e
}

func eventNames() []string {
	var names []string
	for typ := verbs.EventType(0); typ.Known(); typ++ {
		names = append(names, typ.String())
	}
	return names
}

func readLink(t *table) linkEntry {
	return linkEntry{
		target: readTarget(t, true), window: t.window("down_for"), lanes: int(t.integer("lanes", 0, 1, allLanes)), index: t.index,
		why: t.choice("why", noCarrier, append([]string{noCarrier, setDown}, extStates...)),
	}
}
