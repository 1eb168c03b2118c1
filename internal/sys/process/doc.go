// Package process keeps one child process running: it starts, supervises, confines and ends it, and talks to it by
// gRPC through go-plugin. A Contract defines the messages of the two; this package does not know their content.
package process
