// Package tracer is the contract between the host process and its tracer, the program that collects data about applications. It has the
// settings with which the tracer is started, the host's request, the tracer's messages, and their conversion to protobuf. The package
// exports no protobuf types. Package process runs the tracer, package trace defines the data, and package inventory assigns processes to
// applications. The host does not trust a tracer: it limits messages and sanitizes names.
package tracer
