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
	"time"

	"rdma_events/plugins/inputs/rdma_events"
)

const usage = `usage: rdma-events [flags]            run the plugin until standard input ends
       rdma-events check [-config F]  say whether the configuration can be used
       rdma-events sample-config      print the configuration with all defaults
       rdma-events watch [flags]      show events as they come
       rdma-events doctor [flags]     say whether the devices of this host can be watched
       rdma-events assets [flags]     write dashboards, alert rules and configurations for InfluxDB or Prometheus
       rdma-events explain [ALERT]    say what an alert means and what to do; without a name, list them
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
	switch name {
	case "version":
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

func check(args []string, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet("rdma-events check", flag.ContinueOnError)
	set.SetOutput(stderr)
	path := set.String("config", "", "path to the config file to check")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case set.NArg() > 0:
		fmt.Fprintf(stderr, "rdma-events check: %q is not a flag: name the file with -config\n", set.Arg(0))
		return exitUsage
	}
	c, err := loadConfig(*path)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	}
	return done(fmt.Fprintln(stdout, "ok"))
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
