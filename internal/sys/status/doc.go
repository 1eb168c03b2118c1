// Package status has the types for the status of a supervised program: the state that it is in, and the reason why it
// does not run.
package status
