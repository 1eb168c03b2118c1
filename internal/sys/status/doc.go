// Package status has the types for the status of a supervised program: its state, and the reason why it does not run.
package status
