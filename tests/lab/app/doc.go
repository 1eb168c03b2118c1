// Package app leads the program of tests/lab/apps, an application that does what applications should not: it leaves events
// unread and unacknowledged, hangs in the destruction of an object, forks and crashes. Its files have the build tag guest.
package app
