// Command rdma-events is an external Telegraf input plugin for inputs.execd. It reports events, acknowledgement latency
// and port states of RDMA devices as line protocol on standard output.
//
// Without a subcommand it runs the plugin, with the same flags as Telegraf's shim.
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
	exitWarning = 1  // a warning was reported
	exitFailed  = 2  // a failure was reported, or the command failed
	exitUsage   = 64 // wrong usage; EX_USAGE of sysexits.h
	exitUnknown = 70 // the state is unknown; EX_SOFTWARE
)

func main() { os.Exit(runCommand(os.Args[1:], os.Stdout, os.Stderr)) }

// runCommand runs a subcommand or the plugin, and returns the exit status. The plugin uses the process's own standard
// descriptors instead of stdout and stderr. watch, fabric and doctor use the process's standard output.
func runCommand(args []string, stdout, stderr io.Writer) int {
	if slices.ContainsFunc(args, isHelpFlag) {
		stderr = stdout // requested help is output, not an error
	}
	if len(args) > 0 {
		if c := findSubcommand(strings.TrimLeft(args[0], "-")); c != nil && (c.name == args[0] || c.alsoFlag) {
			if c.flags == nil && slices.ContainsFunc(args, isHelpFlag) {
				return printHelp([]string{c.name}, stdout, stderr)
			}
			return c.run(args[1:], stdout, stderr)
		}
	}
	var o pluginFlags
	if code, ok := o.parse(args, stderr); !ok {
		return code
	}
	return runPlugin(&o)
}

// exitAfterWrite returns the exit status after a write with this result.
func exitAfterWrite(_ int, err error) int {
	if err != nil {
		return exitFailed
	}
	return exitOK
}

// pluginFlags are the flags of the plugin, the same as in the example program of Telegraf's shim.
type pluginFlags struct {
	config       string
	pollInterval time.Duration // 0: gather only when prompted
	disabled     bool
}

func (o *pluginFlags) define(stderr io.Writer) *flag.FlagSet {
	set := flag.NewFlagSet("rdma-events", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		fmt.Fprint(stderr, programUsage())
		set.PrintDefaults()
	}
	set.StringVar(&o.config, "config", "", "path of the plugin's configuration")
	set.DurationVar(&o.pollInterval, "poll_interval", time.Second, "time between two gatherings of metrics")
	set.BoolVar(&o.disabled, "poll_interval_disabled", false,
		"gather metrics only when a line arrives on standard input")
	return set
}

// parse parses the plugin's flags. If ok is false, the program must exit with code.
func (o *pluginFlags) parse(args []string, stderr io.Writer) (code int, ok bool) {
	set := o.define(stderr)
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, false
	case err != nil:
		return exitUsage, false
	case set.NArg() > 0:
		fmt.Fprintf(stderr, "rdma-events: %q is neither a subcommand nor a flag\n%s", set.Arg(0), programUsage())
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

// runPlugin runs the plugin as a child process of Telegraf.
func runPlugin(o *pluginFlags) int {
	refuseHugePages()
	limitWakeUps()
	s, err := openStreams(os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "E!", err)
		return exitFailed
	}
	defer s.close()
	ctx, prompts, stop := notifySignals(context.Background())
	defer stop()
	if err := s.run(ctx, o, prompts); err != nil {
		s.log.Error(err)
		return exitFailed
	}
	return exitOK
}
