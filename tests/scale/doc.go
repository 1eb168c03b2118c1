// Package scale fills an InfluxDB as a large installation would, and measures
// what that takes and how long the Fleet dashboard waits for its answers. It is
// for docs/scaling.md and not part of any test run: filling takes many minutes.
package scale
