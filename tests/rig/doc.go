// Package rig runs the real programs under real Telegraf for tests, and reads
// the points that Telegraf wrote. The end-to-end tests use it on the host, the
// tests of the lab use it in a guest.
package rig
