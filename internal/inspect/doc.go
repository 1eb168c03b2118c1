// Package inspect runs the worker program for the doctor and for reports: to try devices, and for
// one answer.
package inspect
