package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// newFlags returns an empty flag set for a subcommand. Its help consists of the synopsis, the text about the
// subcommand, and a line for each flag.
func newFlags(name string, stderr io.Writer) *flag.FlagSet {
	set := flag.NewFlagSet("rdma-events "+name, flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		c := findSubcommand(name)
		fmt.Fprintf(stderr, "usage: %s\n\n%s", c.synopsis(), c.about)
		set.PrintDefaults()
	}
	return set
}

// deviceVar defines the flag -device. It refuses an empty name, since a script whose variable is empty would release all devices. It also
// refuses a second -device: package flag would silently use only the last one, and a script that released two devices would believe that
// both are closed.
func deviceVar(set *flag.FlagSet, p *string, usage string) {
	set.Func("device", usage, func(value string) error {
		switch {
		case value == "":
			return errors.New("the name of the device is empty")
		case *p != "":
			return errors.New("only one device can be named; run the command once for each")
		}
		*p = value
		return nil
	})
}

// parseFlags parses the arguments of a subcommand that takes only flags. instead tells the user what to do instead of
// any other argument. If ok is false, the subcommand must exit with code.
func parseFlags(set *flag.FlagSet, args []string, instead string) (code int, ok bool) {
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, false
	case err != nil:
		return exitUsage, false
	case set.NArg() > 0:
		return reportMisuse(set, fmt.Sprintf("%q is not a flag: %s", set.Arg(0), instead)), false
	}
	return exitOK, true
}

// reportMisuse prints what is wrong with the arguments of a subcommand, and returns the exit status.
func reportMisuse(set *flag.FlagSet, what string) int {
	fmt.Fprintf(set.Output(), "%s: %s\n", set.Name(), what)
	return exitUsage
}
