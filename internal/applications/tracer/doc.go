// Package tracer is the contract between the host and its tracer, the program that finds out what applications
// experience: the settings that it is started with, the request of the host, the messages of the tracer, and the
// conversion of these to protobuf. No protobuf type leaves the package. Package process runs the tracer, package trace
// has the words, and package inventory makes applications of the processes. The host does not trust a tracer: it takes bounded
// messages with clean names.
package tracer
