// Package verdict judges what ports tell of probes between hosts: whether an echo is missing, where probes were lost, and what is wrong
// with a pair or a port, in words that one table explains. It is pure: it opens no device, no connection and no file, and knows no clock.
package verdict
