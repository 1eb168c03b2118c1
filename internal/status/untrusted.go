package status

import "errors"

// ErrUntrusted is wrapped where a program is not run because others could change its file.
var ErrUntrusted = errors.New("not to be trusted")
