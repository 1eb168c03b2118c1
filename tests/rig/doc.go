// Package rig runs the real programs under real Telegraf for tests, and reads
// what Telegraf wrote. The end-to-end tests use it on the host, the lab's in
// its guest.
package rig
