// Command rdma-events is an external Telegraf input plugin for inputs.execd: it
// reports events, acknowledgement latency and port states of RDMA devices as
// line protocol on standard output.
//
// Without a subcommand it runs the plugin, with the flags of Telegraf's shim.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"rdma_events/plugins/inputs/rdma_events"
)

const usage = `usage: rdma-events [flags]            run the plugin until standard input ends
       rdma-events watch [flags]      show events as they come; -demo shows simulated devices
       rdma-events doctor [flags]     say whether the devices of this host can be watched
       rdma-events check -config F    say what a configuration means here, and whether it can be used
       rdma-events sample-config      print the configuration with all defaults
       rdma-events assets [flags]     write dashboards, alert rules and configurations for InfluxDB or Prometheus
       rdma-events explain [ALERT]    say what an alert means and what to do; without a name, list them
       rdma-events help [COMMAND]     print this, or the flags of a command
       rdma-events version            print version and commit
flags:
`

// The exit statuses.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs a subcommand or the plugin and returns the exit status. The plugin
// uses the process' own standard descriptors instead of stdout and stderr; watch
// and doctor use its standard output.
func command(args []string, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	if slices.ContainsFunc(args, asksForHelp) {
		stderr = stdout // who asks for help has made no mistake
	}
	switch name {
	case "help":
		return help(args[1:], stdout, stderr)
	case "version", "-version", "--version":
		return done(fmt.Fprintln(stdout, "rdma-events", describeBuild()))
	case "sample-config":
		return done(io.WriteString(stdout, rdma_events.New().SampleConfig()))
	case "check":
		return check(args[1:], stdout, stderr)
	case "watch":
		return watchLive(args[1:], os.Stdout, stderr)
	case "assets":
		return writeAssets(args[1:], stderr)
	case "explain":
		return explain(args[1:], stdout, stderr)
	case "doctor":
		return examine(args[1:], os.Stdout, stderr)
	}
	o, code := parseFlags(args, stderr)
	if code != exitOK || o == nil {
		return code
	}
	return serve(o)
}

// asksForHelp reports whether a flag is one of those that package flag takes as a request for help.
func asksForHelp(arg string) bool {
	return slices.Contains([]string{"-h", "-help", "--h", "--help"}, arg)
}

// help prints the usage of the program or of a subcommand.
func help(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		return command([]string{"-help"}, stdout, stderr)
	case len(args) == 1 && slices.Contains([]string{"watch", "doctor", "check", "assets"}, args[0]):
		return command([]string{args[0], "-help"}, stdout, stderr)
	}
	for line := range strings.Lines(usage) { // a command without flags has only its line
		if fields := strings.Fields(line); len(args) == 1 && slices.Index(fields, args[0]) == 1 && fields[0] == "rdma-events" {
			return done(fmt.Fprintln(stdout, "usage:", strings.TrimSpace(line)))
		}
	}
	fmt.Fprintf(stderr, "rdma-events help: want the name of one command\n%s", usage)
	return exitUsage
}

func done(_ int, err error) int {
	if err != nil {
		return exitFailed
	}
	return exitOK
}

// flags are the flags of the example program of Telegraf's shim.
type flags struct {
	config       string
	pollInterval time.Duration // 0: gather only when prompted
}

// parseFlags returns nil and an exit status if there is nothing to run.
func parseFlags(args []string, stderr io.Writer) (*flags, int) {
	var o flags
	set := flag.NewFlagSet("rdma-events", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		fmt.Fprint(stderr, usage)
		set.PrintDefaults()
	}
	set.StringVar(&o.config, "config", "", "path to the config file for this plugin")
	set.DurationVar(&o.pollInterval, "poll_interval", time.Second, "how often to send metrics")
	disabled := set.Bool("poll_interval_disabled", false,
		"set to true to disable polling. Metrics are then sent when a line comes on standard input")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, exitOK
	case err != nil:
		return nil, exitUsage
	case set.NArg() > 0:
		fmt.Fprintf(stderr, "rdma-events: %q is neither a subcommand nor a flag\n%s", set.Arg(0), usage)
		set.PrintDefaults()
		return nil, exitUsage
	case o.pollInterval < 0:
		fmt.Fprintf(stderr, "rdma-events: -poll_interval %s is not allowed: want 0 or more\n", o.pollInterval)
		return nil, exitUsage
	}
	if *disabled {
		o.pollInterval = 0
	}
	return &o, exitOK
}

// serve runs the plugin as a child of Telegraf.
func serve(o *flags) int {
	refuseHugePages()
	s, err := openStreams(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "E!", err)
		return exitFailed
	}
	defer s.close()
	ctx, prompts, stop := signals(context.Background())
	defer stop()
	if err := s.run(ctx, o, prompts); err != nil {
		s.log.Error(err)
		return exitFailed
	}
	return exitOK
}
