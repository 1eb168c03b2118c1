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
)

// The exit statuses.
const (
	exitOK      = 0
	exitWarning = 1  // of what was looked at, something is odd
	exitFailed  = 2  // it is broken, or the command could not do its work
	exitUsage   = 64 // the command was used wrongly; EX_USAGE of sysexits.h
	exitUnknown = 70 // it is not known how things are; EX_SOFTWARE
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs a subcommand or the plugin and returns the exit status. The plugin
// uses the process' own standard descriptors instead of stdout and stderr; watch
// and doctor use its standard output.
func command(args []string, stdout, stderr io.Writer) int {
	if slices.ContainsFunc(args, asksForHelp) {
		stderr = stdout // who asks for help has made no mistake
	}
	if len(args) > 0 {
		if c := find(strings.TrimLeft(args[0], "-")); c != nil && (c.name == args[0] || c.alsoFlag) {
			if c.flags == nil && slices.ContainsFunc(args, asksForHelp) {
				return help([]string{c.name}, stdout, stderr)
			}
			return c.run(args[1:], stdout, stderr)
		}
	}
	var o flags
	if code, ok := o.parse(args, stderr); !ok {
		return code
	}
	return serve(&o)
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
	disabled     bool
}

func (o *flags) define(stderr io.Writer) *flag.FlagSet {
	set := flag.NewFlagSet("rdma-events", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		fmt.Fprint(stderr, usage())
		set.PrintDefaults()
	}
	set.StringVar(&o.config, "config", "", "path to the config file for this plugin")
	set.DurationVar(&o.pollInterval, "poll_interval", time.Second, "how often to send metrics")
	set.BoolVar(&o.disabled, "poll_interval_disabled", false,
		"set to true to disable polling. Metrics are then sent when a line comes on standard input")
	return set
}

// parse parses the plugin's flags. If ok is false, there is nothing to run.
func (o *flags) parse(args []string, stderr io.Writer) (code int, ok bool) {
	set := o.define(stderr)
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, false
	case err != nil:
		return exitUsage, false
	case set.NArg() > 0:
		fmt.Fprintf(stderr, "rdma-events: %q is neither a subcommand nor a flag\n%s", set.Arg(0), usage())
		set.PrintDefaults()
		return exitUsage, false
	case o.pollInterval < 0:
		fmt.Fprintf(stderr, "rdma-events: -poll_interval %s is not allowed: want 0 or more\n", o.pollInterval)
		return exitUsage, false
	}
	if o.disabled {
		o.pollInterval = 0
	}
	return exitOK, true
}

// serve runs the plugin as a child of Telegraf.
func serve(o *flags) int {
	refuseHugePages()
	limitWakeUps()
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
