// Package accumulator contains Telegraf accumulators for tests.
package accumulator
