// Package native holds the tests of the real programs under real Telegraf over a
// stand-in for libibverbs: what a library that crashes, hangs, fails, prints or
// attacks comes to, for its device and for the others. The devices exist in a
// mount namespace of the test's own. -update writes docs/native-faults.md.
package native
