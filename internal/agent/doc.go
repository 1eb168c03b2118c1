// Package agent is the host process without Telegraf: it has the options, starts and stops the parts, and leads each point
// from the part where it arises to Telegraf, one at a time.
//
// Telegraf may stop reading at any time. So no goroutine that reads events ever calls the
// accumulator. One other goroutine does, behind a queue that merges points of one series
// rather than grow or drop points.
package agent
