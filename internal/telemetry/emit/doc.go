// Package emit passes points to Telegraf. It limits the number of points of a series within a second, merges the points
// above the limit, and gives the points of a series increasing times.
package emit
