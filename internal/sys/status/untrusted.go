package status

import "errors"

// ErrUntrusted is wrapped by the error for a program that is not run because other users could change its file.
var ErrUntrusted = errors.New("not to be trusted")
