// Package pinglist parses the list of the hosts whose ports probe each other, and determines which host probes which. Every host computes
// the same result from the list without communication. The package is pure: it opens no file and reads no clock.
package pinglist
