// Package emit passes points to Telegraf. It limits how many points a series gets in a second, merges the points above
// the limit, and makes the times of a series rise.
package emit
