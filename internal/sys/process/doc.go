// Package process keeps one child process running. It starts, supervises, confines and ends the process, and talks to it by
// gRPC through go-plugin. A Contract defines the messages between host and child. This package does not know their content.
package process
