// Package status has the words for how a supervised program does: what state it is in, and why it does not run.
package status
