package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether f is a terminal and the user wants colours (https://no-color.org).
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// terminalColumns returns the width of the terminal, or 80 if the terminal does not report it.
func terminalColumns(f *os.File) int {
	const usual = 80
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return usual
	}
	return int(size.Col)
}

// terminalRows returns the number of lines of the terminal, or 24 if the terminal does not report it.
func terminalRows(f *os.File) int {
	const usual = 24
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return usual
	}
	return int(size.Row)
}
