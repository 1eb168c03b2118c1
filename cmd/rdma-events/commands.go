package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"rdma_events/plugins/inputs/rdma_events"
)

// subcommand describes a subcommand. The help, the man page and the shell completions are generated from all
// subcommands.
type subcommand struct {
	name    string
	args    string // as in "[flags]"
	summary string // one line
	about   string // text of the help above the flags; "" if the line is enough
	// flags returns the flags. It is nil if there are none. run parses them itself.
	flags func(stderr io.Writer) *flag.FlagSet
	run   func(args []string, stdout, stderr io.Writer) int
	// alsoFlag is set if the name is also accepted as a flag, as in --version.
	alsoFlag bool
}

// subcommands returns all subcommands in the order of the help. It is a function because the subcommand help refers to
// it.
func subcommands() []subcommand {
	return []subcommand{
		{
			name: "watch", args: "[flags]", summary: "show events as they happen; -demo shows simulated devices",
			about: watchAbout, flags: new(watchFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return watchLive(args, os.Stdout, stderr) },
		},
		{
			name: "fabric", args: "[flags]", summary: "probe other hosts and show each pair of ports; -list shows the hosts only",
			about: fabricAbout, flags: new(fabricFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return showFabric(args, os.Stdout, stderr) },
		},
		{
			name: "status", args: "[flags]", summary: "show the state of this host's devices and their problems",
			about: statusAbout, flags: new(statusFlags).define, run: showStatus,
		},
		{
			name: "health", args: "[flags]", summary: "print the problems of this host in one line, for health checks",
			about: healthAbout, flags: new(healthFlags).define, run: showHealth,
		},
		{
			name: "events", args: "[flags] [DIR...]", summary: "show recorded events, and which failure came first",
			about: eventsAbout, flags: new(eventsFlags).define, run: showEvents,
		},
		{
			name: "report", args: "[flags]", summary: "write an archive for a vendor's support ticket, and show recorded events",
			about: reportAbout, flags: new(reportFlags).define, run: writeReport,
		},
		{
			name: "doctor", args: "[flags]", summary: "check whether the devices of this host can be watched",
			about: doctorAbout, flags: new(doctorFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return runDoctor(args, os.Stdout, stderr) },
		},
		{
			name: "check", args: "-config FILE | -learn", summary: "check a configuration, and show what it selects on this host",
			about: checkAbout, flags: new(checkFlags).define, run: checkConfig,
		},
		{
			name: "release", args: "[flags]", summary: "close devices for some time, for example to install a driver",
			about: releaseAbout, flags: new(releaseFlags).define, run: releaseDevices,
		},
		{
			name: "resume", args: "[flags]", summary: "watch released devices again",
			about: resumeAbout, flags: (&releaseFlags{resume: true}).define, run: resumeDevices,
		},
		{
			name: "forget", args: "DEVICE[:PORT]", summary: "stop expecting a port or device that this host remembers",
			about: forgetAbout, flags: new(forgetFlags).define, run: forgetSubject,
		},
		{
			name: "sample-config", summary: "print the configuration with all defaults",
			run: func(_ []string, stdout, _ io.Writer) int {
				return exitAfterWrite(io.WriteString(stdout, rdma_events.New().SampleConfig()))
			},
		},
		{
			name: "assets", args: "-out DIR [flags]", summary: "write dashboards, alert rules and configurations for InfluxDB or Prometheus",
			about: assetsAbout, flags: new(assetsFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return writeAssets(args, stderr) },
		},
		{
			name: "explain", args: "[ALERT]", summary: "explain an alert and what to do; without a name, list all alerts",
			run: explainAlert,
		},
		{name: "print", args: "man|bash|zsh", summary: "print the man page, or a completion script for a shell", run: printText},
		{name: "help", args: "[COMMAND]", summary: "print this help, or the help of a command", run: printHelp},
		{
			name: "version", summary: "print version and commit", alsoFlag: true,
			run: func(_ []string, stdout, _ io.Writer) int {
				return exitAfterWrite(fmt.Fprintln(stdout, "rdma-events", describeBuild()))
			},
		},
	}
}

// findSubcommand returns the subcommand with the given name, or nil.
func findSubcommand(name string) *subcommand {
	all := subcommands()
	if i := slices.IndexFunc(all, func(c subcommand) bool { return c.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// programUsage returns the usage of the program, without the flags of the plugin.
func programUsage() string {
	var b strings.Builder
	line := func(begin, synopsis, does string) { fmt.Fprintf(&b, "%-6s %-37s  %s\n", begin, synopsis, does) }
	line("usage:", "rdma-events [flags]", "run the plugin until standard input ends")
	for _, c := range subcommands() {
		line("", c.synopsis(), c.summary)
	}
	b.WriteString("flags of the plugin:\n")
	return b.String()
}

// synopsis returns the first line of a subcommand's help.
func (c *subcommand) synopsis() string {
	return strings.TrimSpace("rdma-events " + c.name + " " + c.args)
}

// isHelpFlag reports whether package flag takes the argument as a request for help.
func isHelpFlag(arg string) bool {
	return slices.Contains([]string{"-h", "-help", "--h", "--help"}, arg)
}

// printHelp prints the usage of the program or of a subcommand.
func printHelp(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return runCommand([]string{"-help"}, stdout, stderr)
	}
	c := findSubcommand(args[0])
	switch {
	case c == nil || len(args) > 1:
		fmt.Fprintf(stderr, "rdma-events help: want the name of one command\n%s", programUsage())
		return exitUsage
	case c.flags != nil:
		return c.run([]string{"-help"}, stdout, stdout)
	}
	return exitAfterWrite(fmt.Fprintf(stdout, "usage: %s\n\n%s.\n", c.synopsis(), capitalize(c.summary)))
}

// capitalize returns the text with its first letter in upper case.
func capitalize(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
