// Package e2e holds the tests of the real programs under real Telegraf, on the
// simulator. Each directory below testcases is a test: a configuration of the
// plugin, a scenario, and the line protocol that they must produce.
package e2e
