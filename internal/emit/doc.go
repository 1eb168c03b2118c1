// Package emit hands points to Telegraf. It limits how many points a series gets in a second, merges those above the
// limit, and lets the times of a series rise.
package emit
