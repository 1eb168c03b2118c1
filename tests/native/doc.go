// Package native holds the tests of the real programs under real Telegraf over a
// stand-in for libibverbs: the effects of a library that crashes, hangs, fails,
// prints or attacks, on its device and on the others. The devices exist in the
// test's own mount namespace. -update writes testdata/faults.md.
package native
