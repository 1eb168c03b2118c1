// Package pinglist is the list of the hosts whose ports probe each other: how it is written, and who pings whom, which follows from it
// on each host without a word between them. It is pure: it opens no file and knows no clock.
package pinglist
