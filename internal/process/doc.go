// Package process keeps one child process running: it starts, supervises, confines and ends it, and talks to it by
// gRPC through go-plugin. What the two say to each other is a Contract, of which this package knows nothing.
package process
