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

// subcommand is a subcommand. Help, the man page and the completions of shells are made from all of them.
type subcommand struct {
	name  string
	args  string // as in "[flags]"
	does  string // one line
	about string // what help says above the flags; "" where that line is enough
	// flags returns the flags; nil where there are none. run parses them itself.
	flags func(stderr io.Writer) *flag.FlagSet
	run   func(args []string, stdout, stderr io.Writer) int
	// alsoFlag: the name is a flag too, as in --version.
	alsoFlag bool
}

// subcommands returns all subcommands, in the order of the help. It is a function because help is one of them.
func subcommands() []subcommand {
	return []subcommand{
		{
			name: "watch", args: "[flags]", does: "show events as they come; -demo shows simulated devices",
			about: watchAbout, flags: new(watchFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return watchLive(args, os.Stdout, stderr) },
		},
		{
			name: "fabric", args: "[flags]", does: "show the pairs of this host's ports with other hosts; -list shows who they are",
			about: fabricAbout, flags: new(fabricFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return showFabric(args, os.Stdout, stderr) },
		},
		{
			name: "status", args: "[flags]", does: "show how the devices of this host are, and since when",
			about: statusAbout, flags: new(statusFlags).define, run: showStatus,
		},
		{
			name: "health", args: "[flags]", does: "say in one line what is wrong, for health checks",
			about: healthAbout, flags: new(healthFlags).define, run: judge,
		},
		{
			name: "events", args: "[flags] [DIR...]", does: "show what was recorded, and what broke first",
			about: eventsAbout, flags: new(eventsFlags).define, run: showEvents,
		},
		{
			name: "report", args: "[flags]", does: "write an archive for a vendor's ticket, and show what was recorded",
			about: reportAbout, flags: new(reportFlags).define, run: writeReport,
		},
		{
			name: "doctor", args: "[flags]", does: "say whether the devices of this host can be watched",
			about: doctorAbout, flags: new(doctorFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return examine(args, os.Stdout, stderr) },
		},
		{
			name: "check", args: "-config FILE | -learn", does: "say what a configuration means here, and whether it can be used",
			about: checkAbout, flags: new(checkFlags).define, run: check,
		},
		{
			name: "release", args: "[flags]", does: "close devices for a while, as for an installer of drivers",
			about: releaseAbout, flags: new(releaseFlags).define, run: releaseDevices,
		},
		{
			name: "resume", args: "[flags]", does: "watch released devices again",
			about: resumeAbout, flags: (&releaseFlags{resume: true}).define, run: resumeDevices,
		},
		{
			name: "forget", args: "DEVICE[:PORT]", does: "no longer expect a port or a device that this host remembers",
			about: forgetAbout, flags: new(forgetFlags).define, run: forget,
		},
		{
			name: "sample-config", does: "print the configuration with all defaults",
			run: func(_ []string, stdout, _ io.Writer) int {
				return done(io.WriteString(stdout, rdma_events.New().SampleConfig()))
			},
		},
		{
			name: "assets", args: "-out DIR [flags]", does: "write dashboards, alert rules and configurations for InfluxDB or Prometheus",
			about: assetsAbout, flags: new(assetsFlags).define,
			run: func(args []string, _, stderr io.Writer) int { return writeAssets(args, stderr) },
		},
		{
			name: "explain", args: "[ALERT]", does: "say what an alert means and what to do; without a name, list them",
			run: explain,
		},
		{name: "print", args: "man|bash|zsh", does: "print the man page, or what makes a shell complete these commands", run: printText},
		{name: "help", args: "[COMMAND]", does: "print this, or the flags of a command", run: help},
		{
			name: "version", does: "print version and commit", alsoFlag: true,
			run: func(_ []string, stdout, _ io.Writer) int {
				return done(fmt.Fprintln(stdout, "rdma-events", describeBuild()))
			},
		},
	}
}

// find returns the subcommand of a name, nil if there is none.
func find(name string) *subcommand {
	all := subcommands()
	if i := slices.IndexFunc(all, func(c subcommand) bool { return c.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// usage returns the usage of the program, above the flags of the plugin.
func usage() string {
	var b strings.Builder
	line := func(begin, synopsis, does string) { fmt.Fprintf(&b, "%-6s %-37s  %s\n", begin, synopsis, does) }
	line("usage:", "rdma-events [flags]", "run the plugin until standard input ends")
	for _, c := range subcommands() {
		line("", c.synopsis(), c.does)
	}
	b.WriteString("flags of the plugin:\n")
	return b.String()
}

// synopsis returns the line of a subcommand at the top of its help.
func (c *subcommand) synopsis() string {
	return strings.TrimSpace("rdma-events " + c.name + " " + c.args)
}

// asksForHelp reports whether a flag is one of those that package flag takes as a request for help.
func asksForHelp(arg string) bool {
	return slices.Contains([]string{"-h", "-help", "--h", "--help"}, arg)
}

// help prints the usage of the program or of a subcommand.
func help(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return command([]string{"-help"}, stdout, stderr)
	}
	c := find(args[0])
	switch {
	case c == nil || len(args) > 1:
		fmt.Fprintf(stderr, "rdma-events help: want the name of one command\n%s", usage())
		return exitUsage
	case c.flags != nil:
		return c.run([]string{"-help"}, stdout, stdout)
	}
	return done(fmt.Fprintf(stdout, "usage: %s\n\n%s.\n", c.synopsis(), sentence(c.does)))
}

// sentence returns the text with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
