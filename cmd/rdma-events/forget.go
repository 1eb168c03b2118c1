package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"rdma_events/internal/agent"
	"rdma_events/internal/device/memory"
)

const forgetAbout = `Makes this host forget a port, as in mlx5_1:2, or a device with all of its ports, as
in mlx5_1. A forgotten port need not be active and has no best rate, and a forgotten
device is not missing, until the port is active or the device is open for a minute
again. A running plugin applies this at its next interval. The options expect and
expected stay in effect. Only root and the plugin's user may run the command.
Exit status 0: forgotten; 1: the host did not remember it; 2: failed.
`

// forgetFlags are the flags of the subcommand forget.
type forgetFlags struct{ directory string }

func (o *forgetFlags) define(stderr io.Writer) *flag.FlagSet {
	set := newFlags("forget", stderr)
	set.StringVar(&o.directory, "directory", defaultRecords, "the plugin's state directory")
	return set
}

// forgetSubject runs the subcommand forget.
func forgetSubject(args []string, stdout, stderr io.Writer) int {
	var o forgetFlags
	set := o.define(stderr)
	var what string
	if len(args) > 0 && !strings.HasPrefix(args[len(args)-1], "-") { // flags come first
		what, args = args[len(args)-1], args[:len(args)-1]
	}
	if code, ok := parseFlags(set, args, "name one port or device, after the flags"); !ok {
		return code
	}
	device, port, err := parseSubject(what)
	if err != nil {
		return reportMisuse(set, err.Error())
	}
	was, err := memory.Forget(o.directory, device, port)
	switch {
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("only root and the plugin's user may do this: %w", err)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("no plugin has a memory in %s: name its state directory with -directory: %w", o.directory, err)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "E!", err)
		return exitFailed
	case !was:
		fmt.Fprintf(stderr, "W! %s: it was not remembered\n", what)
		return exitWarning
	}
	return exitAfterWrite(fmt.Fprintf(stdout, "%s: no longer remembered\n", what))
}

var errSubject = errors.New("want a port, as in mlx5_1:2, or a device, as in mlx5_1")

// parseSubject parses the name of a device or of a port. Port 0 stands for the device.
func parseSubject(text string) (device string, port int, err error) {
	device, number, isPort := strings.Cut(text, ":")
	if isPort {
		port, err = strconv.Atoi(number)
		if err != nil || port < 1 || port > 255 {
			return "", 0, errSubject
		}
	}
	if !agent.IsDevice(device) {
		return "", 0, errSubject
	}
	return device, port, nil
}
