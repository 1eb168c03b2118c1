// Package gidtable finds the GIDs that were added, removed and moved between readings of a port's GID table.
package gidtable
