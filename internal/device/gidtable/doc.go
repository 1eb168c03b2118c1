// Package gidtable finds the GIDs that came, went and moved between the readings of a port's GID table.
package gidtable
