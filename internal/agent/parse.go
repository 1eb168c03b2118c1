package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Parse parses a configuration file. Unlike Telegraf's shim it is strict: it returns a one-line error for a key that is
// not an option, for a second instance and for a value of the wrong type. The caller must have replaced the environment
// variables in text with Expand. Parse does not check the values; Config.Validate does.
func Parse(text string) (Config, error) {
	var file struct {
		Inputs map[string]toml.Primitive `toml:"inputs"`
	}
	md, err := toml.Decode(text, &file)
	if err != nil {
		return Config{}, syntaxError(err)
	}
	if err := checkTables(md.Keys()); err != nil {
		return Config{}, err
	}
	d := decoder{&md}
	values, err := d.decodeInstance(file.Inputs)
	if err != nil {
		return Config{}, err
	}
	c := DefaultConfig()
	if c.Expected, err = d.decodeExpected(values); err != nil {
		return Config{}, err
	}
	return c, d.assignOptions(c.options(), values)
}

// syntaxError returns the error of the TOML parser on one line, with the number of the line in the file.
func syntaxError(err error) error {
	var syntax toml.ParseError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("parse configuration: %w", err)
	}
	message, _, _ := strings.Cut(syntax.Message, "\n")
	return fmt.Errorf("parse configuration: line %d: %s", syntax.Position.Line, message)
}

// checkTables returns an error for the first key outside the plugin's table. A file with such a key is probably
// Telegraf's own configuration, with [agent] and outputs.
func checkTables(keys []toml.Key) error {
	for _, key := range keys {
		if key.String() != "inputs" && (len(key) < 2 || key[0] != "inputs" || key[1] != "rdma_events") {
			return fmt.Errorf("%s does not belong here: this file has one [[%s]], and Telegraf's own has the rest", key, table)
		}
	}
	return nil
}

// decoder decodes one file value by value, because the TOML package alone does not name the key of a value that it
// cannot decode.
type decoder struct{ *toml.MetaData }

// decodeInstance returns the values of the only [[inputs.rdma_events]]. The keys are relative to it and have the form
// of toml.Key.String: interval in the section probe is probe.interval, and a quoted "probe.interval" keeps its quotes.
func (d decoder) decodeInstance(inputs map[string]toml.Primitive) (map[string]toml.Primitive, error) {
	// The TOML package decodes a value that is not a table into an empty map, without an error.
	if value := d.rawValue(inputs, "rdma_events"); !isTables(value) {
		return nil, fmt.Errorf("%s = %s is not allowed: want [[%s]]", table, tomlLiteral(value), table)
	}
	var instances []map[string]toml.Primitive
	if err := d.PrimitiveDecode(inputs["rdma_events"], &instances); err != nil {
		return nil, fmt.Errorf("parse %s: %w", table, err)
	}
	switch len(instances) {
	case 0:
		return nil, fmt.Errorf("no [[%s]] in the configuration", table)
	case 1:
		return d.flatten(instances[0])
	}
	return nil, fmt.Errorf("%s: %d instances are not allowed: want one, and one [[inputs.execd]] for each more",
		table, len(instances))
}

// isTables reports whether value is an array of tables, in either spelling ([[x]] or x = [{}]), or nil.
func isTables(value any) bool {
	values, ok := value.([]any)
	if _, proper := value.([]map[string]any); proper || value == nil {
		return true
	}
	return ok && !slices.ContainsFunc(values, func(v any) bool { return !isTable(v) })
}

func isTable(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

// flatten returns the values, including the values of all sections, each under the key section.name.
func (d decoder) flatten(values map[string]toml.Primitive) (map[string]toml.Primitive, error) {
	flat := make(map[string]toml.Primitive, len(values))
	for key, value := range values {
		flat[toml.Key{key}.String()] = value
	}
	for _, name := range sectionNames() {
		p, ok := values[name]
		if !ok {
			continue
		}
		var section map[string]toml.Primitive
		if err := d.PrimitiveDecode(p, &section); err != nil || !isTable(d.rawValue(values, name)) {
			return nil, notAllowed(name, d.rawValue(values, name), "["+table+"."+name+"]")
		}
		delete(flat, name)
		for key, value := range section {
			flat[toml.Key{name, key}.String()] = value
		}
	}
	return flat, nil
}

func sectionNames() []string {
	return []string{"roles", "probe", "evidence", "recorder", "applications", "fabric", "sim"}
}

// assignOptions sets the options that values contains. It proceeds in the order of the file, so that it returns the
// first of several errors.
func (d decoder) assignOptions(options []option, values map[string]toml.Primitive) error {
	for _, key := range d.Keys() {
		if len(key) <= 2 || len(key) == 3 && slices.Contains(sectionNames(), key[2]) || key[2] == expectedSection {
			continue
		}
		if err := d.setOption(options, key[2:].String(), values); err != nil {
			return err
		}
	}
	return nil
}

// setOption sets one option to its value in values.
func (d decoder) setOption(options []option, name string, values map[string]toml.Primitive) error {
	value := d.rawValue(values, name)
	i := slices.IndexFunc(options, func(o option) bool { return o.key == name })
	if i < 0 {
		return unknownKey(name, value, options)
	}
	if unset := findUnsetVariable(value); unset != "" {
		return notAllowed(name, value, options[i].want+"; the environment has no "+unset)
	}
	if err := d.PrimitiveDecode(values[name], options[i].target); err != nil || isEmptyDuration(options[i].target, value) {
		return notAllowed(name, value, options[i].want)
	}
	return nil
}

// decodeExpected returns the sections [[inputs.rdma_events.expected]] of an instance.
func (d decoder) decodeExpected(values map[string]toml.Primitive) ([]ExpectedConfig, error) {
	value := d.rawValue(values, expectedSection)
	if value == nil {
		return nil, nil
	}
	var tables []map[string]toml.Primitive
	if err := d.PrimitiveDecode(values[expectedSection], &tables); err != nil || !isTables(value) {
		return nil, notAllowed(expectedSection, value, "[["+table+"."+expectedSection+"]]")
	}
	all := make([]ExpectedConfig, len(tables))
	for i, section := range tables {
		flat := make(map[string]toml.Primitive, len(section))
		for key, p := range section {
			flat[toml.Key{expectedSection, key}.String()] = p
		}
		for _, name := range slices.Sorted(maps.Keys(flat)) {
			if err := d.setOption(all[i].options(), name, flat); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// isEmptyDuration reports whether value is an empty duration. Telegraf decodes an empty duration to 0, which would turn
// features of this plugin off.
func isEmptyDuration(target, value any) bool {
	_, ok := target.(*Duration)
	return ok && value == ""
}

// rawValue returns a value as the TOML package has parsed it, or nil if there is none. A key of three parts has no
// value here: it is part of another value.
func (d decoder) rawValue(values map[string]toml.Primitive, name string) any {
	p, ok := values[name]
	if !ok {
		return nil
	}
	var value any
	if err := d.PrimitiveDecode(p, &value); err != nil {
		return err.Error()
	}
	return value
}

func unknownKey(name string, value any, options []option) error {
	top, _, _ := strings.Cut(name, ".")
	if slices.Contains(execdOptions(), top) {
		return fmt.Errorf("%s: %s = %s does not work here: put it on [[inputs.execd]] in Telegraf's own configuration",
			table, name, tomlLiteral(value))
	}
	known := make([]string, len(options))
	for i, o := range options {
		known[i] = o.key
	}
	slices.Sort(known)
	return fmt.Errorf("%s: %s = %s is not an option: want one of %s", table, name, tomlLiteral(value), strings.Join(known, ", "))
}

// execdOptions returns the options that every Telegraf input has. They are set on [[inputs.execd]] in Telegraf's own
// configuration and have no effect in the plugin's process.
func execdOptions() []string {
	return []string{
		"alias", "always_include_global_tags", "always_include_local_tags",
		"collection_jitter", "collection_offset", "data_format", "fielddrop",
		"fieldexclude", "fieldinclude", "fieldpass", "interval", "log_level",
		"metricpass", "name_override", "name_prefix", "name_suffix", "namedrop",
		"namedrop_separator", "namepass", "namepass_separator", "precision",
		"restart_delay", "signal", "startup_error_behavior", "tagdrop",
		"tagexclude", "taginclude", "tagpass", "tags", "time_source",
	}
}
