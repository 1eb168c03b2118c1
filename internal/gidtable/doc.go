// Package gidtable tells from the readings of a port's GID table which GIDs came, went and moved.
package gidtable
