package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// newFlags returns the flags of a subcommand. Its help is the subcommand's line, what it is about, and a line for each flag.
func newFlags(name string, stderr io.Writer) *flag.FlagSet {
	set := flag.NewFlagSet("rdma-events "+name, flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Usage = func() {
		c := find(name)
		fmt.Fprintf(stderr, "usage: %s\n\n%s", c.synopsis(), c.about)
		set.PrintDefaults()
	}
	return set
}

// parse parses the arguments of a subcommand that takes only flags. instead is what to do with another argument. If ok is
// false, the subcommand ends with the exit status.
func parse(set *flag.FlagSet, args []string, instead string) (code int, ok bool) {
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK, false
	case err != nil:
		return exitUsage, false
	case set.NArg() > 0:
		return misused(set, fmt.Sprintf("%q is not a flag: %s", set.Arg(0), instead)), false
	}
	return exitOK, true
}

// misused says what is wrong with the arguments of a subcommand, and returns the exit status.
func misused(set *flag.FlagSet, what string) int {
	fmt.Fprintf(set.Output(), "%s: %s\n", set.Name(), what)
	return exitUsage
}
