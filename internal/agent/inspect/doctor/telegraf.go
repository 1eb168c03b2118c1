package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
)

// telegrafName is the name of the check of Telegraf's configuration.
const telegrafName = "telegraf"

// execdInput is an [[inputs.execd]] of Telegraf's configuration.
type execdInput struct {
	Command    []string `toml:"command"`
	Signal     string   `toml:"signal"`
	DataFormat string   `toml:"data_format"`
}

// checkTelegraf returns the results of readTelegraf.
func checkTelegraf(x *examination) []Result { return x.telegraf }

// readTelegraf reads Telegraf's configuration, or the plugin's own. It runs first, because the configuration selects
// the devices and the worker program.
func (x *examination) readTelegraf() {
	if x.Config == "" {
		return
	}
	text, err := fs.ReadFile(x.Root, inspect.Relative(x.Config))
	if err != nil {
		x.addConfigFault("", "read "+x.Config+": "+withoutPath(err).Error())
		return
	}
	var file struct {
		Inputs struct {
			Execd      []execdInput     `toml:"execd"`
			RDMAEvents []map[string]any `toml:"rdma_events"`
		} `toml:"inputs"`
	}
	if _, err := toml.Decode(string(text), &file); err != nil {
		x.addConfigFault("", x.Config+": "+firstLine(err))
		return
	}
	if len(file.Inputs.Execd) == 0 && len(file.Inputs.RDMAEvents) > 0 {
		x.readPlugin(x.Config)
		return
	}
	for _, e := range file.Inputs.Execd {
		if len(e.Command) > 0 && path.Base(e.Command[0]) == "rdma-events" {
			x.checkExecd(e)
		}
	}
	if len(x.telegraf) == 0 {
		x.addConfigFault("", "no [[inputs.execd]] of "+x.Config+" runs rdma-events")
	}
}

// checkExecd checks how Telegraf starts the plugin, and the plugin's configuration.
func (x *examination) checkExecd(e execdInput) {
	program := e.Command[0]
	prompted, config := parseArguments(e.Command[1:])
	switch info, err := fs.Stat(x.Root, inspect.Relative(program)); {
	case !path.IsAbs(program):
		x.addConfigFault("inputs.execd", fmt.Sprintf("command = [%q]: want an absolute path; Telegraf's own PATH decides otherwise", program))
	case err != nil:
		x.addConfigFault("inputs.execd", fmt.Sprintf("command = [%q]: %v", program, withoutPath(err)))
	case info.Mode()&0o111 == 0:
		x.addConfigFault("inputs.execd", fmt.Sprintf("command = [%q]: it is not executable", program))
	}
	signal := e.Signal
	if signal == "" {
		signal = "none" // Telegraf's default
	}
	switch {
	case prompted && signal == "none":
		x.addConfigFault("inputs.execd", `signal = "none" with -poll_interval_disabled: nothing is ever sent; set signal = "STDIN"`)
	case !prompted && signal != "none":
		x.telegraf = append(x.telegraf, Result{
			Check: telegrafName, Subject: "inputs.execd", Status: Warn, Fix: x.editConfig(),
			Text: fmt.Sprintf("signal = %q without -poll_interval_disabled: the plugin gathers when Telegraf prompts it and by its own "+
				"-poll_interval too; add -poll_interval_disabled to command", signal),
		})
	}
	if e.DataFormat != "" && e.DataFormat != "influx" {
		x.addConfigFault("inputs.execd", fmt.Sprintf(`data_format = %q: set it to "influx"`, e.DataFormat))
	}
	if config == "" {
		x.telegraf = append(x.telegraf, Result{Check: telegrafName, Subject: "inputs.execd", Text: "runs the plugin with its defaults"})
		return
	}
	x.readPlugin(config)
}

// parseArguments parses the plugin's command line. It returns whether the plugin gathers only when prompted, and the
// path of its configuration.
func parseArguments(args []string) (prompted bool, config string) {
	for i, arg := range args {
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "poll_interval_disabled": // accepts a value only after "="
			disabled, err := strconv.ParseBool(value)
			prompted = prompted || !has || err == nil && disabled
		case "poll_interval":
			interval, err := time.ParseDuration(value)
			prompted = prompted || err == nil && interval == 0
		case "config":
			config = value
		}
	}
	return prompted, config
}

// readPlugin reads the plugin's own configuration as the plugin does.
func (x *examination) readPlugin(config string) {
	c, err := x.Plugin(config)
	x.plugin = c
	if err != nil {
		x.Config = config // the file to fix
		x.addConfigFault("", err.Error())
		return
	}
	r := Result{Check: telegrafName, Subject: config, Text: "can be used"}
	if c.Simulated {
		r.Status, r.Text, r.Fix = Warn, "simulates devices, and watches no device of this host", x.command(advice.EditFile, config)
	}
	x.telegraf = append(x.telegraf, r)
}

// addConfigFault adds a failure of the check of Telegraf's configuration.
func (x *examination) addConfigFault(subject, text string) {
	x.telegraf = append(x.telegraf, Result{
		Check: telegrafName, Subject: subject, Status: Fail, Text: text, Fix: x.editConfig(),
	})
}

// withoutPath removes the operation and the path from an error.
func withoutPath(err error) error {
	if at, ok := err.(*fs.PathError); ok { //nolint:errorlint // fs.FS returns it as it is
		return at.Err
	}
	return err
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
