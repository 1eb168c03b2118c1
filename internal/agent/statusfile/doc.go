// Package statusfile keeps the last [health.Status] of each running plugin where every user of the host can read it: a
// file for each plugin, in a directory that is not the runtime directory, since that one is closed to other users.
package statusfile
