// Package e2e holds the tests of the real programs under real Telegraf, on the
// simulator. A directory below testcases is a test: a configuration of the
// plugin, a scenario, and the line protocol that has to come of them.
package e2e
