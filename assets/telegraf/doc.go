// Package telegraf holds Telegraf configurations for installations that one
// database cannot serve; docs/scaling.md explains them. The tests have
// Telegraf itself check them.
package telegraf
