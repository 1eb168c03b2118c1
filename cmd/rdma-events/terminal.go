package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether f is a terminal on which the user wants colours
// (https://no-color.org describes the variable).
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
