// Package statusfile stores the last [health.Status] of each running plugin, so that every user of the host can read
// it. Each plugin writes one file. The files are not in the runtime directory, which other users cannot read.
package statusfile
