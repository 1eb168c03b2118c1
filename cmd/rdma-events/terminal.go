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

// columns returns the terminal's width, 80 if the terminal does not report it.
func columns(f *os.File) int {
	const usual = 80
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return usual
	}
	return int(size.Col)
}

// rows returns how many lines the terminal has, 24 if the terminal does not report it.
func rows(f *os.File) int {
	const usual = 24
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return usual
	}
	return int(size.Row)
}
