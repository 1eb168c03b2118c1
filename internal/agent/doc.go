// Package agent implements the host process without Telegraf. It parses the options, starts and stops the parts
// (devices, fabric, applications, releases) and passes each point from the part that makes it to Telegraf.
//
// Telegraf may stop reading at any time. Therefore no goroutine that reads events calls the accumulator. A separate
// goroutine calls it, behind a queue that merges points of the same series instead of growing or dropping points.
package agent
