package status

import "errors"

// ErrUntrusted is in the error for a program that must not be run because other users could change its file.
var ErrUntrusted = errors.New("not to be trusted")
